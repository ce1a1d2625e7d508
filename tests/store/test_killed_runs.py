"""A run that is killed at any write, once or twice, ends bit for bit as the one that never was."""

from itertools import count

import pytest
from kept_runs import METHODS, build, dies, fast_folder, go, remove_tree

FEW = [
    ("rfs", "buffered", None, 0.0),
    ("knot mmt", "buffered", None, 0.0),
    ("federaser", "sync", None, 0.0),
    ("rfs", "sync", "dqn", 1e9),
]
MANY = [(name, pace, None, 0.0) for name in METHODS for pace in ("sync", "buffered")]
MANY += [("rfs", pace, one, 0.0) for pace in ("sync", "buffered") for one in ("k-center", "dqn", "balanced")]


def walk(name, pace, selector, every, first=1, stride=1):
    """Kill a run at each of its points; how many there were."""
    if name == "fats" and pace == "buffered":
        pytest.skip("FATS draws its rounds at a synchronous pace")
    base = fast_folder()
    try:
        expected = go(build(name, pace, selector), base / "whole", every)
        assert expected == go(build(name, pace, selector), base / "never again", 1e9)
        for moment in count(first, stride):
            folder = base / str(moment)
            if not dies(moment, lambda: go(build(name, pace, selector), folder, every)):  # noqa: B023
                return moment - 1
            if moment % 3 == 0:  # and again, a while later
                dies(moment % 50 + 1, lambda: go(build(name, pace, selector), folder, every))  # noqa: B023
            assert go(build(name, pace, selector), folder, every) == expected, f"killed at point {moment}"
            if moment % 10 == 1:
                assert go(build(name, pace, selector), folder, every) == expected, "and it is over"
            remove_tree(folder)
    finally:
        remove_tree(base)


@pytest.mark.parametrize(("name", "pace", "selector", "every"), FEW)
def test_killed_at_one_of_every_few_writes_it_ends_as_if_it_had_not(name, pace, selector, every):
    assert walk(name, pace, selector, every, stride=16) > 10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pace", "selector", "every"), [*MANY, *FEW[3:]])
def test_killed_at_every_write_it_ends_as_if_it_had_not(name, pace, selector, every):
    assert walk(name, pace, selector, every) > 100
