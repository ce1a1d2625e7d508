"""Figures on hand-made scores."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknot.audit import Curve, proportion
from unknot.core.errors import ConfigError
from unknot.core.keys import Key

KEY = Key.root(0)


def test_what_is_apart_has_an_area_of_one():
    auc = Curve.of([3, 2, 1], [0, -1]).auc(KEY)
    assert (auc.value, auc.low, auc.high) == (1, 1, 1)


def test_what_is_alike_has_an_area_of_a_half_give_or_take_its_interval():
    """Two samples of 400 of one distribution: the deviation is √(801 / (12 · 400 · 400)) = 0.0204."""
    draws = KEY.child("alike").uniform(np.arange(800))
    auc = Curve.of(draws[:400], draws[400:]).auc(KEY)
    assert auc.low < 0.5 < auc.high
    assert auc.high - auc.low == pytest.approx(2 * 2.576 * 0.0204, rel=0.2)


def test_a_tie_counts_half():
    assert Curve.of([1, 1], [1, 0]).auc(KEY).value == 0.75


def test_true_positives_at_a_rate_by_hand():
    """Of 100 others, 1 % is one: the threshold is the second highest, 98; two of four are above."""
    curve = Curve.of([99.5, 98.5, 98, 50], np.arange(100))
    caught = curve.tpr(0.01)
    assert caught is not None
    assert caught.value == 0.5
    half = curve.tpr(0.5)  # fifty may be above: the threshold is 49
    assert half is not None
    assert half.value == 1.0


@pytest.mark.parametrize(
    ("others", "rate", "told"), [(999, 0.001, False), (1000, 0.001, True), (99, 0.01, False)]
)
def test_a_rate_that_the_others_are_too_few_for_is_not_told(others, rate, told):
    assert (Curve.of([1.0], np.zeros(others)).tpr(rate) is not None) is told


def test_who_scores_alike_is_not_caught():
    caught = Curve.of(np.ones(50), np.ones(200)).tpr(0.01)
    assert caught is not None
    assert caught.value == 0
    assert caught.high == pytest.approx(1 - 0.005 ** (1 / 50))  # where (1 - p)^50 is half of 1 %


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(5, 10, 0.18709, 0.81291), (0, 50, 0.0, 1 - 0.025**0.02), (3, 3, 0.025 ** (1 / 3), 1.0)],
)
def test_clopper_and_pearson_as_in_their_tables(hits, trials, low, high):
    found = proportion(hits, trials, level=0.95)
    assert found.value == hits / trials
    assert found.low == pytest.approx(low, abs=1e-5)
    assert found.high == pytest.approx(high, abs=1e-5)


def test_decisions_by_hand():
    """Three of four are caught and one of four others is alarmed: all three figures are 0.75."""
    found = Curve.of([1, 1, 0, 1], [0, 0, 1, 0]).decided(0.5, KEY)
    assert {name: estimate.value for name, estimate in found.items()} == {
        "precision": 0.75,
        "recall": 0.75,
        "f1": 0.75,
    }
    always = Curve.of([1, 1], [1, 1, 1]).decided(0.5, KEY)["f1"]
    assert always.value == pytest.approx(2 / 3)
    never = Curve.of([0, 0], [0, 0]).decided(0.5, KEY)
    assert never["precision"].value == never["f1"].value == 0


scores = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(scores, scores)
def test_the_area_under_the_points_is_the_auc(members, others):
    curve = Curve.of(members, others)
    false, true = curve.points()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert np.trapezoid(true, false) == pytest.approx(curve.auc(KEY).value)


def test_intervals_are_the_same_each_time():
    draws = KEY.child("again").uniform(np.arange(100))
    curve = Curve.of(draws[:30], draws[30:])
    assert curve.auc(KEY) == curve.auc(KEY) != curve.auc(Key.root(1))


def test_what_cannot_be_scored_is_said():
    with pytest.raises(ConfigError, match="needs members"):
        Curve.of([], [1.0])
    with pytest.raises(ConfigError, match="diverged"):
        Curve.of([1.0], [math.nan])
