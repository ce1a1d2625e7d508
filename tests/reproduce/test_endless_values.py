"""A perplexity may be past all numbers: what is made of it says so, and nothing breaks."""

import math

import pytest

from unknot.core.metrics import METRICS
from unknot.experiments.seeds import Stat
from unknot.reproduce.intervals import Interval

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
