"""A perplexity may be past all numbers: what is made of it says so, and nothing breaks."""

import math
import tomllib

import pytest

from small_reproductions import RUNS
from unknot.core.errors import DataError
from unknot.core.metrics import METRICS
from unknot.experiments.seeds import Stat
from unknot.reproduce import findings, reproduce
from unknot.reproduce.intervals import Interval
from unknot.reproduce.record_file import keep, kept
from unknot.reproduce.records import read
from unknot.reproduce.reproduction import Reproduction

INF = math.inf


def test_a_mean_with_a_value_past_all_numbers_has_no_deviation():
    assert Stat.of([1.0, INF]) == Stat(INF, None, 2, 2)
    assert Stat.of([INF, INF, None]) == Stat(INF, None, 2, 3)
    assert Stat.of([INF]) == Stat(INF, None, 1, 1)
    assert math.isnan(Stat.of([INF, -INF]).mean)
    assert Stat.of([1e308, 1e308]).mean == INF


def test_perplexities_without_a_logarithm_are_not_steady():
    assert METRICS["perplexity"]().spread([0.0, 1.0]) == INF


@pytest.mark.parametrize(
    "values", [[INF, 1.0], [-INF, -1.0], [INF, INF], [INF, -INF], [math.nan, 1.0], [1e308, 1e308]]
)
def test_an_interval_with_a_value_past_all_numbers_has_no_end_and_shows_nothing(values):
    found = Interval.of(values)
    assert (found.low, found.high, found.n, found.sign) == (-INF, INF, 2, 0)


def test_a_single_value_past_all_numbers_has_its_sign():
    assert [Interval.of([value]).sign for value in (INF, -INF, math.nan)] == [1, -1, 0]


def endless(item):
    """With perplexities that end past all numbers."""
    trace = {name: part for name, part in item["trace"].items() if name != "accuracy"}
    return {
        **item,
        "trace": {**trace, "metric": "perplexity", "perplexity": [2.0, INF]},
        "extra": {**item["extra"], "final": INF},
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    plan = Reproduction.of(tomllib.loads(RUNS), "tiny")
    file = reproduce(plan, out=tmp_path_factory.mktemp("endless"), only=["rfs", "slow"])
    items = kept(file)
    keep(file, endless(items["p/rfs/0"]), *({**item, **_finite(item)} for item in list(items.values())[1:]))
    return plan, file


def _finite(item):
    made = endless(item)
    return {
        "trace": {**made["trace"], "perplexity": [2.0, 3.0]},
        "extra": {**item["extra"], "final": 3.0},
    }


def test_a_page_of_perplexities_past_all_numbers_has_findings(file):
    plan, records = file
    (panel, _) = findings(plan, "small", records).panels
    line = next(line for line in panel.lines if line.name == "rfs")
    assert line.curve is not None


def test_what_a_share_ends_with_is_finite(tmp_path, file):
    _, records = file
    first = kept(records)["p/slow/0"]
    trace = {**first["trace"], "accuracy": [0.5, 0.5]}
    del trace["metric"], trace["perplexity"]
    for change in ({"trace": trace, "extra": {"final": INF}}, {"extra": {"memory": INF}}):
        keep(tmp_path / "a.json.gz", {**first, **change})
        with pytest.raises(DataError, match=r"is damaged .extra has what is not finite"):
            read(tmp_path / "a.json.gz")
