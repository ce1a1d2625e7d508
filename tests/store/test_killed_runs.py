"""A run that is killed at any kind of write, in any phase, ends bit for bit as the one that never was."""

import pytest
from kept_runs import METHODS, SELECTORS, SYNCHRONOUS
from killed_walks import walk

from unknot.store.files import POINTS
from unknot.unlearn import METHODS as REGISTERED

SELECTED = {
    ("rfs", "sync"): "dqn",
    ("rapid", "buffered"): "dqn",
    ("mmt", "sync"): "dqn",
    ("knot mmt", "buffered"): "dqn",
    ("bmt", "sync"): "k-center",
    ("sisa", "buffered"): "k-center",
    ("knot", "sync"): "k-center",
    ("pga", "buffered"): "k-center",
    ("bmt", "buffered"): "balanced",
    ("fedcio", "sync"): "balanced",
    ("federaser", "sync"): "balanced",
    ("distillation", "buffered"): "balanced",
}
"""Who selects; at random where nothing is said."""
CASES = [
    (name, pace, SELECTED.get((name, pace)))
    for name in METHODS
    for pace in ("sync", "buffered")
    if pace == "sync" or name not in SYNCHRONOUS
]
PHASES = ("first round", "checkpoint", "erasure", "restart", "restart, erasing", "end")
FEW = CASES[3:17:7]  # one a pace, with selectors that remember


def test_every_method_and_selector_is_walked_and_both_paces():
    assert set(REGISTERED) <= {name for name, _, _ in CASES}
    assert {pace for _, pace, _ in CASES} == {"sync", "buffered"}
    assert {selector for _, _, selector in CASES} == set(SELECTORS)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_killed_at_a_few_moments_it_ends_as_if_it_had_not(case):
    found = walk(case, first=FEW.index(case) * 3, stride=29)
    assert not found.wrong
    assert found.kills > 5


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_killed_at_every_point_in_every_phase_it_ends_as_if_it_had_not(case):
    found = walk(case)
    assert not found.wrong
    assert {phase for phase, _ in found.moments} >= set(PHASES)
    assert {point for _, point in found.moments} == set(POINTS)
