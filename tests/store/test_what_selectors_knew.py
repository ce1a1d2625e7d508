"""Numbers that a selector keeps of each client lie in a run's checkpoints, and go with the client."""

import numpy as np
import pytest
from kept_runs import build

from unknot.core.requests import erase
from unknot.store.keeper import RunKeeper

GONE = 1
KEPT = {"balanced": ("_pairs", "_sum"), "k-center": (), "dqn": ()}
"""Which attributes have a row a client."""


def holding(folder, numbers) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += [path.suffix or path.name for number in numbers if number in content]
    return found


def rows(selector, names) -> set[bytes]:
    """What it knows of who leaves, number by number, as a file has it."""
    place = selector._row[GONE]
    numbers = np.concatenate([np.ravel(getattr(selector, name)[place]) for name in names])
    return {number.tobytes() for number in numbers if abs(number) not in (0.0, 0.5, 1.0, 4.0)}


@pytest.mark.parametrize("name", KEPT)
def test_what_a_selector_knew_of_an_erased_client_is_in_no_file(name, tmp_path):
    fed = build("rfs", "sync", name)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2)
    numbers = rows(fed.lanes["global"].selector, KEPT[name]) if KEPT[name] else set()
    assert (".state" in holding(tmp_path / "run", numbers)) == bool(KEPT[name])
    fed.run(2, requests=erase(GONE, round=2))
    assert holding(tmp_path / "run", numbers) == []
    for selector in (fed.state.select, *(lane.selector for lane in fed.lanes.values())):
        assert GONE not in selector.lineage.clients
    keeper.close()
    assert holding(tmp_path / "run", numbers) == []
