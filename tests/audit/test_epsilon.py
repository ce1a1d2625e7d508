"""A lower bound on ε, from counts."""

import math
from functools import cache

import numpy as np
import pytest

from unknot.audit import epsilon as audit
from unknot.audit.epsilon import Counts, lower_bound
from unknot.audit.roc import proportion
from unknot.core.errors import ConfigError

TAIL = 0.0125  # at a level of 95 %, for each of four limits


def test_the_bound_by_hand_where_every_member_is_caught_and_nobody_alarmed():
    """Limits TAIL^(1/50) of the hits and 1 − TAIL^(1/40) of the alarms; both inequalities, the greater."""
    low, high = TAIL ** (1 / 50), 1 - TAIL ** (1 / 40)
    found = lower_bound(Counts(50, 50, 0, 40))
    assert found.epsilon == pytest.approx(max(math.log(low / high), math.log((1 - high) / (1 - low))))
    assert found.most == found.epsilon
    assert (found.level, found.delta) == (0.95, 0.0)


def test_delta_is_taken_off_what_is_seen():
    low, high = TAIL ** (1 / 50), 1 - TAIL ** (1 / 50)
    found = lower_bound(Counts(50, 50, 0, 50), delta=0.1)
    assert found.epsilon == pytest.approx(math.log((low - 0.1) / high))
    assert lower_bound(Counts(50, 50, 0, 50), delta=0.95).epsilon == 0


def test_the_complement_can_bound_more():
    """Every member is caught, and half of the others alarmed: who is not called a member is none."""
    found = lower_bound(Counts(1000, 1000, 500, 1000)).epsilon
    caught, alarmed = (proportion(hits, 1000, 0.975) for hits in (1000, 500))
    assert found == pytest.approx(math.log((1 - alarmed.high) / (1 - caught.low)))
    assert found > 4 * math.log(caught.low / alarmed.high)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_an_attack_that_is_wrong_more_often_than_not_bounds_as_much(delta):
    right, wrong = Counts(80, 100, 30, 100), Counts(30, 100, 80, 100)
    assert lower_bound(right, delta).epsilon == pytest.approx(lower_bound(wrong, delta).epsilon)
    assert lower_bound(right, delta).epsilon > 0


def test_what_is_alike_bounds_nothing():
    assert lower_bound(Counts(50, 100, 50, 100)).epsilon == 0
    assert lower_bound(Counts(0, 1, 0, 1)).epsilon == 0


def test_the_most_that_can_be_found_grows_with_the_counts():
    most = [lower_bound(Counts(0, n, 0, n)).most for n in (1, 10, 100, 1000, 10000)]
    assert most == sorted(most)
    assert most[0] == 0
    assert most[-1] == pytest.approx(math.log(10000 / -math.log(TAIL)), rel=1e-3)
    assert lower_bound(Counts(0, 10, 0, 1000)).most > most[1]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_the_bound_is_no_more_than_the_epsilon_of_randomised_response(epsilon, monkeypatch):
    """One bit, told truly with the chance e^ε / (1 + e^ε): ε is known, and no test gains more."""
    monkeypatch.setattr(audit, "proportion", cache(proportion))  # the counts repeat
    draws = np.random.default_rng(7).binomial(
        300, [[1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))]] * 400
    )
    counts, often = np.unique(draws, axis=0, return_counts=True)
    found = np.array(
        [lower_bound(Counts(int(hits), 300, int(alarms), 300)).epsilon for hits, alarms in counts]
    )
    assert often[found <= epsilon].sum() >= 0.95 * 400
    assert epsilon == 0 or (found * often).sum() / 400 > epsilon / 3


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1, 0, 0, 1), "at least one"),
        ((2, 1, 0, 1), "hits"),
        ((0, 1, -1, 1), "alarms"),
        ((0, 1, 0, 0), "others"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, said):
    with pytest.raises(ConfigError, match=said):
        Counts(*counts)


@pytest.mark.parametrize(
    ("delta", "level", "said"), [(1.0, 0.95, "delta"), (-0.1, 0.95, "delta"), (0, 1.0, "level")]
)
def test_options_that_make_no_sense_are_refused(delta, level, said):
    with pytest.raises(ConfigError, match=said):
        lower_bound(Counts(1, 2, 1, 2), delta, level)
