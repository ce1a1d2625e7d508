"""Figures on hand-made scores."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unknot.audit import Curve, proportion, roc
from unknot.core.errors import ConfigError
from unknot.core.keys import Key

KEY = Key.root(0)


Z2 = 2.5758293**2  # of 99 %


def test_what_is_apart_has_an_area_of_one_and_an_interval_for_what_was_not_seen():
    """As wide as Wilson's for as many hits as there are of the fewer: from 1 / (1 + z² / 2)."""
    auc = Curve.of([3, 2, 1], [0, -1]).auc()
    assert (auc.value, auc.high) == (1, pytest.approx(1))
    assert auc.low == pytest.approx(1 / (1 + Z2 / 2))
    against = Curve.of([0, -1], [3, 2, 1]).auc()
    assert (against.value, against.low) == (0, pytest.approx(0))
    assert against.high == pytest.approx(1 - auc.low)
    assert Curve.of([1], [0]).auc().low == pytest.approx(1 / (1 + Z2))


def test_what_is_alike_has_an_area_of_a_half_give_or_take_its_interval():
    """Two samples of 400 of one distribution: the deviation is √(801 / (12 · 400 · 400)) = 0.0204."""
    draws = KEY.child("alike").uniform(np.arange(800))
    auc = Curve.of(draws[:400], draws[400:]).auc()
    assert auc.low < 0.5 < auc.high
    assert auc.high - auc.low == pytest.approx(2 * 2.576 * 0.0204, rel=0.05)


def test_the_area_and_its_interval_by_hand():
    """Twenty and twenty in turn: members beat 1, 2, ... 20 of 20, and others 0, 1, ... 19: area 10.5 / 20.

    On either side the squares about the mean sum to 20 · 399 / 12 / 400 = 1.6625, where all or nothing has
    19 · 0.525 · 0.475; with one more to both, each side is that part of 1 / 20.
    """
    auc = Curve.of(np.arange(20) + 0.5, np.arange(20)).auc()
    assert auc.value == pytest.approx(0.525)
    worth = 10 * (1 + 19 * 0.525 * 0.475) / (1 + 1.6625)
    assert worth > 20
    ends = np.roots([1 + Z2 / worth, -(2 * 0.525 + Z2 / worth), 0.525**2])
    assert [auc.low, auc.high] == pytest.approx(sorted(ends))


def test_a_tie_counts_half():
    assert Curve.of([1, 1], [1, 0]).auc().value == 0.75


def test_true_positives_at_a_rate_by_hand():
    """Of 1,000 others 1 % is ten: the threshold is the tenth highest, 990, and two of four are above."""
    curve = Curve.of([999.5, 990.5, 990, 50], np.arange(1000))
    caught = curve.tpr(0.01)
    assert caught is not None
    assert caught.value == 0.5
    half = curve.tpr(0.5)  # 500: the threshold is 500
    assert half is not None
    assert half.value == 0.75


def test_the_interval_of_a_rate_by_hand():
    """How many of 1,000 reach the true threshold is Binomial: 1 or fewer in 0.05 %, 21 or more in 0.18 %.

    So it lies between the 21st highest, 979, and the second highest, 998, but for that; what is left of
    0.5 % on either side is for the members: 30 above the one, and 100 that reach the other.
    """
    count = stats.binom(1000, 0.01)
    assert count.cdf(1) < 0.0025 < count.cdf(2)
    assert count.sf(20) < 0.0025 < count.sf(19)
    members = np.repeat([998.5, 998, 985, 979, 0], [30, 20, 15, 35, 100])
    found = Curve.of(members, np.arange(1000)).tpr(0.01)
    assert found is not None
    assert found.value == 50 / 200
    assert found.low == pytest.approx(stats.beta(30, 171).ppf(0.005 - count.cdf(1)))
    assert found.high == pytest.approx(stats.beta(101, 100).isf(0.005 - count.sf(20)))


@pytest.mark.parametrize(
    ("others", "rate", "told"),
    [(9999, 0.001, False), (10000, 0.001, True), (999, 0.01, False), (1000, 0.01, True)],
)
def test_a_rate_that_the_others_are_too_few_for_is_not_told(others, rate, told):
    assert (Curve.of([1.0], np.zeros(others)).tpr(rate) is not None) is told


def test_the_threshold_keeps_the_rate():
    """Of uniform scores the true rate is 1 − threshold: on average 10/1001; by the eleventh one, 11/1001."""
    others = np.sort(np.random.default_rng(3).uniform(size=(3000, 1000)))
    tenth = others[:, -10]
    for row, threshold in zip(others[:5], tenth, strict=False):
        just_above, at = (Curve.of([x], row).tpr(0.01) for x in (np.nextafter(threshold, 1), threshold))
        assert just_above is not None
        assert at is not None
        assert (just_above.value, at.value) == (1, 0)
    rates, error = 1 - tenth, 3 * math.sqrt(0.01 / 1000 / 3000)
    assert rates.mean() == pytest.approx(10 / 1001, abs=error)
    assert rates.mean() <= 0.01 + error < 1 - others[:, -11].mean()


def test_who_scores_alike_is_not_caught_but_might_be():
    """A score that is the same for all says nothing: the interval is all that can be."""
    caught = Curve.of(np.ones(50), np.ones(1000)).tpr(0.01)
    assert caught is not None
    assert (caught.value, caught.low, caught.high) == (0, 0, 1)


DRAWS = 300


def covered(estimates, truth):
    return np.mean([found.low <= truth <= found.high for found in estimates])


def normal(mean, deviation):
    return lambda draw, n: draw.normal(mean, deviation, n)


KINDS = {
    "alike": (normal(0, 1), 0.5, 0.01),
    "apart": (normal(2, 1), stats.norm.cdf(2 / 2**0.5), stats.norm.sf(stats.norm.isf(0.01) - 2)),
    "wide": (normal(1, 2), stats.norm.cdf(1 / 5**0.5), stats.norm.sf((stats.norm.isf(0.01) - 1) / 2)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(30, 30), (100, 300), (300, 50)])
def test_the_interval_of_the_area_covers(kind, sizes):
    members, truth, _ = KINDS[kind]
    draw = np.random.default_rng(11)
    found = [Curve.of(members(draw, sizes[0]), draw.normal(size=sizes[1])).auc() for _ in range(DRAWS)]
    assert covered(found, truth) >= 0.98


@pytest.fixture
def quick(monkeypatch):
    """Counts repeat over draws."""
    monkeypatch.setattr(roc, "proportion", cache(proportion))
    monkeypatch.setattr(roc, "_binomial", cache(roc._binomial))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_true_positives_covers_with_the_threshold_unknown(kind):
    members, _, truth = KINDS[kind]
    draw = np.random.default_rng(12)
    found = [Curve.of(members(draw, 200), draw.normal(size=1000)).tpr(0.01) for _ in range(DRAWS)]
    assert covered(found, truth) >= 0.98


@pytest.mark.usefixtures("quick")
def test_the_interval_of_true_positives_covers_where_scores_tie():
    """Scores 0 to 5. Of the others 0.6 % are above 4 and 3.1 % above 3: the threshold is 4."""
    draw = np.random.default_rng(13)
    assert stats.binom.sf(4, 5, 0.36) < 0.01 < stats.binom.sf(3, 5, 0.36)
    found = [
        Curve.of(draw.binomial(5, 0.7, 200), draw.binomial(5, 0.36, 1000)).tpr(0.01) for _ in range(DRAWS)
    ]
    assert covered(found, 0.7**5) >= 0.98


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("cut", [0.5, 3.0])
def test_the_intervals_of_decisions_cover(cut):
    caught, alarmed = stats.norm.sf(cut - 1), stats.norm.sf(cut)
    truth = {
        "precision": caught / (caught + alarmed),
        "recall": caught,
        "f1": 2 * caught / (1 + caught + alarmed),
    }
    draw = np.random.default_rng(14)
    found = [Curve.of(draw.normal(1, 1, 100), draw.normal(0, 1, 150)).decided(cut) for _ in range(DRAWS)]
    for name, value in truth.items():
        assert covered([each[name] for each in found], value) >= 0.98


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
    found = Curve.of([1, 1, 0, 1], [0, 0, 1, 0]).decided(0.5)
    assert {name: estimate.value for name, estimate in found.items()} == {
        "precision": 0.75,
        "recall": 0.75,
        "f1": 0.75,
    }
    always = Curve.of([1, 1], [1, 1, 1]).decided(0.5)["f1"]
    assert always.value == pytest.approx(2 / 3)
    never = Curve.of([0, 0], [0, 0]).decided(0.5)
    assert never["precision"].value == never["f1"].value == 0
    assert (never["precision"].low, never["precision"].high) == (0, 1)


def test_the_interval_of_decisions_by_hand():
    """All 20 are caught and none of 30 alarmed: each limit takes a quarter of 1 %."""
    found = Curve.of(np.ones(20), np.zeros(30)).decided(0.5)
    caught, alarmed = 0.0025 ** (1 / 20), 1 - 0.0025 ** (1 / 30)
    assert found["recall"].low == pytest.approx(caught)
    assert found["precision"].low == pytest.approx(caught / (caught + alarmed))
    assert found["f1"].low == pytest.approx(2 * caught / (1 + caught + alarmed))
    assert {estimate.high for estimate in found.values()} == {1}


scores = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(scores, scores)
def test_the_area_under_the_points_is_the_auc(members, others):
    curve = Curve.of(members, others)
    false, true = curve.points()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert (np.diff(false) >= 0).all()
    assert np.trapezoid(true, false) == pytest.approx(curve.auc().value)


def test_what_cannot_be_scored_is_said():
    with pytest.raises(ConfigError, match="needs members"):
        Curve.of([], [1.0])
    with pytest.raises(ConfigError, match="diverged"):
        Curve.of([1.0], [math.nan])
