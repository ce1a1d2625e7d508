"""The same federation under several methods: each run is the one that it would be alone."""

import tomllib
from dataclasses import dataclass, replace

import pytest
import torch

import unknot
from support import half_frozen
from unknot.core.errors import ConfigError, RequestError, UnknotError
from unknot.core.requests import erase
from unknot.experiments import Experiment, compare, comparison, run
from unknot.experiments.contenders import USUAL, contenders, parse_method
from unknot.experiments.figures import figures
from unknot.experiments.seeds import parse_seeds
from unknot.federation import Round, Served
from unknot.unlearn import KNOT, METHODS, MMT, RFS

FILE = """
name = "small"
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[train]
lr = 0.05
batch_size = 10
[federation]
rounds = 4
[[request]]
erase = 1
round = 2
"""
EXPERIMENT = Experiment.of(tomllib.loads(FILE))
SMALL = ["knot, clusters=2", "fedcio, clusters=2"]
ALL = [*(name for name in METHODS if name not in ("knot", "fedcio", "distillation")), *SMALL]
SECONDS = ("seconds", "environment")  # those of a run are of all, and so are the paths that the engine took


def without_seconds(history):
    return {name: value for name, value in history.to_dict().items() if name not in SECONDS}


@pytest.fixture(scope="module")
def found():
    return compare(EXPERIMENT, ["rfs", "mmt", "knot, clusters=2", "federaser"], (0, 3))


@pytest.fixture(scope="module")
def every():
    return compare(EXPERIMENT, [*ALL], (0, 3))


# Data of your own -----------------------------------------------------------------------------------


def towns():
    key = torch.Generator().manual_seed(0)
    held = {
        name: (torch.randn(12, 5, generator=key), torch.arange(12) % 3) for name in ("Graz", "Linz", "Wien")
    }
    return unknot.clients(held, test=(torch.randn(9, 5, generator=key), torch.arange(9) % 3), name="towns")


SETTINGS = {"federation": {"rounds": 3}, "request": [{"erase": "Graz", "round": 1}]}


def test_methods_are_compared_on_data_of_your_own_as_each_would_be_alone():
    data = towns()
    found = unknot.compare(SETTINGS, ["rfs", "mmt"], (0, 1), data=data)
    assert len(data) == 3
    assert found.to_dict()["data"] == "towns"
    for (method, seed), history in found.histories.items():
        fed = unknot.simulate("mlp", towns(), method, Experiment.of(SETTINGS).setup.recipe, seed=seed)
        fed.run(3, requests=[erase("Graz", round=1)])
        assert history.model.equal(fed.model), (method, seed)
        assert history.model.lineage.describe() == ["Linz", "Wien"]


def test_data_of_your_own_is_not_mixed_with_that_of_a_file():
    with pytest.raises(ConfigError, match="a \\[data\\] of its own: leave it out"):
        compare(EXPERIMENT, ["rfs"], data=towns())
    with pytest.raises(ConfigError, match=r"not dict: make it by unknot\.clients"):
        compare(SETTINGS, ["rfs"], data={"Graz": 1})


# The same bits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_run_is_the_one_that_a_file_of_its_own_gives_bit_for_bit(name, every):
    history = every.histories[name, 3]
    alone = run(Experiment.of(history.experiment))
    assert alone.model.equal(history.model)
    assert without_seconds(alone) == without_seconds(history)


def test_rows_have_the_figures_of_the_runs_alone(found):
    for row in found.rows[1::2]:
        table = {**EXPERIMENT.table, "seed": row["seed"], "method": parse_method(row["method"])}
        record = run(Experiment.of(table)).to_dict()
        assert row["model"] == record["model"]
        assert row["guarantee"] == record["guarantee"]
        assert row["before"] == record["requests"][0]["before"]["validation"]["metrics"]["accuracy"]
        assert row["after"] == record["requests"][0]["after"]["validation"]["metrics"]["accuracy"]
        assert row["final"] == record["scores"]["validation"]["metrics"]["accuracy"]
        assert row["test"] == record["scores"]["test"]["metrics"]["accuracy"]
        recovery = record["recoveries"][0]
        for name in ("rounds", "seconds", "client_epochs"):
            assert row[f"regained_{name}"] == (recovery[name] if recovery["reached"] else None)
        assert {name: row[name] for name in record["costs"]} == record["costs"]


def test_in_groups_and_in_double_precision_it_is_the_same_too(monkeypatch):
    monkeypatch.setattr(comparison, "TOGETHER", 1)
    changed = ["engine.dtype=float64", "data.corrupt=[2]", "engine.name=loop", "federation.rounds=3"]
    found = compare(Experiment.of(tomllib.loads(FILE), changed), ["rfs", "sisa"])
    for which, history in found.histories.items():
        assert run(Experiment.of(history.experiment)).model.equal(history.model), which


class WithTable(torch.nn.Module):
    """Adds numbers that are drawn when it is made, and never trained."""

    def __init__(self, shape, classes):
        super().__init__()
        self.linear = torch.nn.Linear(torch.Size(shape).numel(), classes)
        self.register_buffer("table", torch.randn(classes))

    def forward(self, x):
        return self.linear(x.flatten(1)) + self.table


def test_models_with_buffers_of_their_own_have_engines_of_their_own(monkeypatch):
    monkeypatch.setitem(unknot.registry.models._added, "with-table", WithTable)
    given = Experiment.of(tomllib.loads(FILE), ["model.name=with-table"])
    found = compare(given, ["rfs"], (0, 1))
    for which, history in found.histories.items():
        assert run(Experiment.of(history.experiment)).model.equal(history.model), which


def test_models_with_a_base_of_their_own_have_engines_of_their_own(monkeypatch):
    monkeypatch.setitem(unknot.registry.models._added, "half-frozen", half_frozen)
    given = Experiment.of(tomllib.loads(FILE), ["model.name=half-frozen"])
    found = compare(given, ["rfs"], (0, 1))
    for which, history in found.histories.items():
        assert run(Experiment.of(history.experiment)).model.equal(history.model), which


def test_the_engine_trains_all_runs_in_one_call(monkeypatch):
    calls = []
    whole = unknot.engine.StackedEngine.train

    def train(self, jobs, data):
        calls.append(len(jobs))
        return whole(self, jobs, data)

    monkeypatch.setattr(unknot.engine.StackedEngine, "train", train)
    compare(EXPERIMENT, ["rfs", "sisa"], (0, 1, 2))
    assert calls == [4 * 6, 4 * 6, 3 * 6, 3 * 6]  # 4 clients in 6 runs, and after the erasure 3


# Which methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("mmt", {"name": "mmt"}),
        (" knot , clusters=4", {"name": "knot", "clusters": 4}),
        ('name="knot", clusters=4', {"name": "knot", "clusters": 4}),
        ('knot, retrain={name="mmt"}', {"name": "knot", "retrain": {"name": "mmt"}}),
        ("package.module:Thing", {"name": "package.module:Thing"}),
    ],
)
def test_a_method_is_written_as_a_name_with_options_as_in_a_file(text, table):
    assert parse_method(text) == table


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["knot, clusters=four"], "double quotes"),
        (['knot, name="mmt"'], "two names"),
        (["clusters=4"], "has no name"),
        (["mtm"], "Did you mean 'mmt'"),
        (["knot, cluster=4"], "no option 'cluster'. Did you mean 'clusters'"),
        (["mmt", "mmt"], "named twice"),
        ([], "name a method"),
        ([RFS], "such as unknot.RFS"),
    ],
)
def test_a_method_that_is_none_is_refused_before_anything_runs(given, message):
    with pytest.raises(ConfigError, match=message):
        compare(EXPERIMENT, given)


def test_a_method_may_be_a_name_a_section_or_a_value_and_is_called_by_what_is_special():
    given = ["mmt", {"name": "knot", "clusters": 2}, KNOT(clusters=3, by="random", retrain=MMT()), RFS()]
    labels = [one.label for one in contenders(given, EXPERIMENT)]
    assert labels == ["mmt", "knot, clusters=2", "knot, clusters=3, by=random, retrain=mmt", "rfs"]


def test_options_in_the_file_are_for_the_method_that_it_names():
    file = Experiment.of(tomllib.loads(FILE), ["method.name=knot", "method.clusters=3"])
    knot, other, mmt = contenders(["knot", "knot, by='random'", "mmt"], file)
    assert (knot.method.clusters, knot.label) == (3, "knot")
    assert (other.method.clusters, other.method.by) == (3, "random")
    assert mmt.table == {"name": "mmt"}
    value = replace(EXPERIMENT, method=KNOT(clusters=3))  # a changed copy has no file
    assert contenders(["knot"], value)[0].method.clusters == 3


def test_unless_methods_are_named_there_are_the_usual_ones_and_the_files_own():
    assert [one.label for one in contenders(None, EXPERIMENT)] == [*USUAL]
    file = Experiment.of(tomllib.loads(FILE), ["method.name=bmt"])
    assert [one.label for one in contenders(None, file)] == [*USUAL, "bmt"]


@pytest.mark.parametrize(
    ("text", "seeds"), [("0", (0,)), ("0,2", (0, 2)), ("0-3", (0, 1, 2, 3)), ("1-2, 7", (1, 2, 7))]
)
def test_seeds_are_a_list_or_from_to(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "0;1", "3-1", "1-", "0,0", "-1"])
def test_seeds_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match="seed"):
        parse_seeds(text)
    with pytest.raises(ConfigError, match="each once"):
        compare(EXPERIMENT, ["rfs"], ())


# What cannot be -------------------------------------------------------------------------------------


def test_a_method_that_cannot_run_the_file_is_a_row_that_says_why():
    found = compare(EXPERIMENT, ["rfs", "distillation", "mmt"])
    rows = {row["method"]: row for row in found.rows}
    assert "needs inputs of the server's own" in rows["distillation"]["error"]
    assert rows["distillation"]["model"] is None
    assert rows["rfs"]["error"] is rows["mmt"]["error"] is None
    assert set(rows["rfs"]) == set(rows["distillation"])
    assert [row["failed"] for row in found.summary] == [0, 1, 0]
    assert "distillation could not run" in repr(found)


def test_what_no_method_can_run_is_an_error_of_the_file():
    with pytest.raises(RequestError, match="cannot erase client 9"):
        compare(replace(EXPERIMENT, requests=(erase(9, round=1),)), ["rfs", "mmt"])


def test_what_the_engine_refuses_of_one_run_does_not_end_the_others(monkeypatch):
    """The engine is asked by all at once; then each goes by itself, and only one is refused."""
    whole = unknot.engine.StackedEngine.train

    def train(self, jobs, data):
        if any(job.recipe.ascent for job in jobs):
            raise ConfigError("no")
        return whole(self, jobs, data)

    monkeypatch.setattr(unknot.engine.StackedEngine, "train", train)
    found = compare(EXPERIMENT, ["rfs", "pga"])
    assert found.failures == {("pga", 0): "no"}
    assert run(EXPERIMENT).model.equal(found.histories["rfs", 0].model)


@dataclass(frozen=True)
class Failing(RFS):
    error: BaseException

    name = "failing"

    def absorb(self, desk, lane, updates):
        raise self.error


def test_what_a_method_of_ones_own_raises_is_a_row_that_says_what():
    found = compare(EXPERIMENT, [RFS(), Failing(ValueError("not so"))])
    assert list(found.failures.values()) == ["ValueError: not so"]
    assert run(EXPERIMENT).model.equal(found.histories["rfs", 0].model)


def test_what_stops_every_run_is_raised_with_its_cause():
    with pytest.raises(UnknotError, match="ValueError: not so") as raised:
        compare(EXPERIMENT, [Failing(ValueError("not so"))])
    assert isinstance(raised.value.__cause__, ValueError)


def test_what_the_engine_raises_at_one_run_does_not_end_the_others(monkeypatch):
    whole = unknot.engine.StackedEngine.train

    def train(self, jobs, data):
        if any(job.recipe.ascent for job in jobs):
            raise RuntimeError("too large")
        return whole(self, jobs, data)

    monkeypatch.setattr(unknot.engine.StackedEngine, "train", train)
    found = compare(EXPERIMENT, ["rfs", "pga"])
    assert found.failures == {("pga", 0): "RuntimeError: too large"}


def test_who_interrupts_ends_all_runs():
    with pytest.raises(KeyboardInterrupt):
        compare(EXPERIMENT, [RFS(), Failing(KeyboardInterrupt())])


def test_a_run_that_did_not_go_well_says_so_in_its_row():
    wild = Experiment.of(tomllib.loads(FILE), ["train.lr=1e30"])
    (row,) = compare(wild, ["rfs"]).rows
    assert "set aside" in row["warnings"][0]


# Figures --------------------------------------------------------------------------------------------


def test_extra_training_is_beside_plain_training_of_the_same_seed(found):
    """4 clients in rounds of all: 8 jobs before the request; MMT trains 3 levels of each client's tree."""
    by = {(row["method"], row["seed"]): row for row in found.rows}
    assert by["rfs", 3]["client_epochs_before"] == 8
    assert (by["rfs", 3]["extra_training"], by["mmt", 3]["extra_training"]) == (1, 3)
    (row,) = compare(EXPERIMENT, ["mmt"]).rows
    assert (row["client_epochs_before"], row["extra_training"]) == (24, None)


def test_of_several_erasures_the_row_is_that_of_the_hardest():
    asked = (erase({1: [0]}, round=1), erase([1, 2], round=3))
    (row,) = compare(replace(EXPERIMENT, requests=asked), ["rfs"]).rows
    assert [one["round"] for one in row["requests"]] == [1, 3]
    never = [one for one in row["requests"] if one["regained_rounds"] is None]
    hardest = max(never or row["requests"], key=lambda one: one["regained_seconds"] or 0)
    assert row["before"] == hardest["before"]


def test_without_a_request_there_is_the_whole_training_to_compare():
    (row,) = compare(replace(EXPERIMENT, requests=()), ["rfs"]).rows
    assert row["before"] is row["after"] is row["regained_rounds"] is None
    assert (row["client_epochs_before"], row["requests"]) == (16, [])


def test_the_split_is_the_one_that_was_watched():
    only_test = Experiment.of(tomllib.loads(FILE), ["federation.evaluate_on=['test']"])
    (row,) = compare(only_test, ["rfs"]).rows
    assert row["split"] == "test"
    assert row["final"] == row["test"]
    never = Experiment.of(tomllib.loads(FILE), ["federation.evaluate_every=0"])
    (row,) = compare(never, ["rfs"]).rows
    assert row["after"] is None
    assert row["final"] is not None


def test_numbers_that_are_none_are_left_out(found):
    """JSON knows no NaN."""
    history = found.histories["rfs", 0]
    scores = {"test": replace(history.scores["test"], metrics={"accuracy": float("nan")})}
    wild = replace(history, ended=replace(history.ended, scores=scores))
    assert figures(wild)["test"] is None


def test_the_summary_has_means_and_deviations_over_the_seeds(found):
    rows = [row["after"] for row in found.rows if row["method"] == "mmt"]
    summary = next(row for row in found.summary if row["method"] == "mmt")
    assert summary["after"] == pytest.approx(sum(rows) / 2)
    assert summary["after_std"] == pytest.approx(abs(rows[0] - rows[1]) / 2**0.5)
    assert summary["seeds"] == 2


def test_courses_are_counted_from_the_first_erasure(found):
    curve = found.to_dict()["methods"][0]["curve"]
    assert curve["asked"] == [0.0]
    at = curve["at"].index(0.0)
    after = [row["after"] for row in found.rows if row["method"] == "rfs"]
    assert curve["mean"][at] == pytest.approx(sum(after) / 2)
    assert (curve["low"][at], curve["high"][at]) == (min(after), max(after))


def test_whoever_wants_is_told_what_happens_in_which_run():
    told = []
    compare(EXPERIMENT, ["rfs", "mmt"], (0, 1), tell=lambda *what: told.append(what))
    assert {(method, seed) for method, seed, _ in told} == {(m, s) for m in ("rfs", "mmt") for s in (0, 1)}
    assert sum(isinstance(event, Round) for *_, event in told) == 16
    assert sum(isinstance(event, Served) for *_, event in told) == 4


class RefusedAtTheEnd(RFS):
    """What it wants trained when its run is over cannot be: by then the others are done."""

    name = "refused"

    def conclude(self, desk):
        lane = desk.lanes["global"]
        job = desk.job(lane, lane.nodes["global"], 0)
        desk.train_apart([replace(job, recipe=replace(job.recipe, epochs=7))])


def test_who_looks_on_is_told_once_what_happens_in_a_run_that_is_begun_again(monkeypatch):
    whole = unknot.engine.StackedEngine.train

    def train(self, jobs, data):
        if any(job.recipe.epochs == 7 for job in jobs):
            raise ConfigError("no")
        return whole(self, jobs, data)

    monkeypatch.setattr(unknot.engine.StackedEngine, "train", train)
    told, done = [], []
    found = compare(
        EXPERIMENT,
        ["rfs", RefusedAtTheEnd()],
        tell=lambda *what: told.append(what),
        done=lambda *which: done.append(which),
    )
    assert list(found.failures) == [("refused", 0)]
    assert done == [("rfs", 0)]
    for method in ("rfs", "refused"):
        events = [event for name, _, event in told if name == method]
        assert [event.round for event in events if isinstance(event, Round)] == [1, 2, 3, 4]
        assert sum(isinstance(event, Served) for event in events) == 1


def test_a_file_is_read_with_its_changes(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    found = unknot.compare(path, ["rfs"], overrides=["federation.rounds=3", "seed=5"])
    assert found.histories["rfs", 5].experiment["federation"]["rounds"] == 3
    with pytest.raises(ConfigError, match="change a file"):
        compare(EXPERIMENT, ["rfs"], overrides=["seed=1"])


def test_printed_it_is_the_tables_of_the_command_line(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    text = str(found)
    assert max(map(len, text.splitlines())) <= 70
    for word in ("guarantee", "before", "right after", "training before", "stored", "exact*"):
        assert word in text
    monkeypatch.delenv("COLUMNS")
    assert 70 < max(map(len, str(found).splitlines())) <= 100
    assert "\n" not in repr(found)


def test_a_notebook_shows_the_tables_and_a_picture_is_one_call_away(found, tmp_path):
    shown = found._repr_html_()
    assert "right after" in shown
    assert "knot, clusters=2" in shown
    found.plot(tmp_path / "compared.svg")
    assert (tmp_path / "compared.svg").exists()


def test_pandas_is_asked_for_only_where_it_is_wanted(found, monkeypatch):
    class Pandas:
        DataFrame = staticmethod(lambda rows: rows)

    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        found.to_pandas()
    monkeypatch.setitem(__import__("sys").modules, "pandas", Pandas)
    assert found.to_pandas() is found.rows
