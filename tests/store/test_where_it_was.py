"""In which cluster, and in which models of a tree, an erased client was at the start: gone from the disk."""

import pytest
from kept_runs import SIZES, build

from unknot.core.requests import erase
from unknot.store.keeper import RunKeeper


def everybody(history) -> set[int]:
    sets = [*history.members.values(), *(one for nodes in history.nodes.values() for one in nodes)]
    return {client for one in sets for client in one}


@pytest.mark.parametrize("name", ["knot", "mmt", "knot mmt"])
def test_who_is_erased_is_in_no_list_of_a_kept_run_and_the_others_are(name, tmp_path):
    fed = build(name, "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2, requests=erase({3: [1]}, round=1))
    assert everybody(fed.history) == set(range(len(SIZES)))
    fed.run(2, requests=erase(1, round=2))
    left = set(range(len(SIZES))) - {1}
    assert everybody(fed.history) == left
    keeper.close()
    again = build(name, "sync")
    RunKeeper.go_on(again, tmp_path / "run").close()
    assert everybody(again.history) == left
    assert again.history.members == fed.history.members
    assert again.history.nodes == fed.history.nodes
    assert all(one for nodes in again.history.nodes.values() for one in nodes)
