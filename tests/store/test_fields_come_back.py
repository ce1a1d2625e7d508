"""What a federation remembers beside its models comes back with a run that is gone on with."""

import pytest
from kept_runs import SIZES, build, story

from support import small_data, toy_federation
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage, Unit
from unknot.core.requests import erase, join
from unknot.federation import Synchronous
from unknot.federation.observers import Observers
from unknot.federation.snapshot import dump
from unknot.select import DQN, DQNSettings
from unknot.select.dqn import Policy
from unknot.store.keeper import RunKeeper
from unknot.unlearn import RFS

KNOWN = 4
SETTINGS = DQNSettings(batch=2, renew=2, hidden=(8,))


def given():
    """A federation that selects by what was learned in an earlier run, from client 4 among others."""
    policy = Policy(range(len(SIZES)), SETTINGS, Key.root(3))
    policy.lineage = Lineage([Unit(KNOWN)])
    selector = DQN(SETTINGS, policy)
    return toy_federation(RFS(), small_data(SIZES), pace=Synchronous(4), select=selector)


def gone_on_with(fed, folder):
    fed.close()
    again = given()
    RunKeeper.go_on(again, folder, every=0.0)
    return again


@pytest.fixture
def kept(tmp_path):
    fed = given()
    RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2)
    return fed


def test_a_policy_that_knows_a_client_is_reset_when_that_one_is_erased_after_a_resumption(kept, tmp_path):
    again = gone_on_with(kept, tmp_path / "run")
    assert again.state.select_knows.clients == {KNOWN}
    assert again.state.select.policy is not None
    again.run(1, requests=[erase(KNOWN, round=2)])
    assert again.state.select.policy is None
    assert again.state.select_knows == NOBODY
    again.close()


def test_a_policy_that_was_reset_stays_so_and_the_client_it_knew_spoils_nothing_more(kept, tmp_path):
    kept.run(1, requests=[erase(KNOWN, round=2)])
    again = gone_on_with(kept, tmp_path / "run")
    assert again.state.select_knows == NOBODY
    assert again.state.select.policy is None
    again.run(2, requests=[erase(1, round=3)])
    assert KNOWN not in again.lanes["global"].knows.clients
    again.close()
    memory = given()
    memory.run(2)
    memory.run(1, requests=[erase(KNOWN, round=2)])
    memory.run(2, requests=[erase(1, round=3)])
    assert story(memory.history) == story(again.history)


def test_what_began_again_with_the_last_request_is_remembered(tmp_path):
    fed = build("mmt", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(3, requests=[erase({3: [1, 2]}, round=1), erase(1, round=2)])
    keeper.close()
    assert fed.state.restarted
    again = build("mmt", "sync")
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    assert again.state.restarted == fed.state.restarted
    keeper.close()


def test_who_had_to_be_set_aside_is_told_at_the_end_of_a_run_that_was_gone_on_with(tmp_path):
    fed = build()

    def breaks(event):
        raise RuntimeError("no room for the table")

    fed.work.observers = Observers([breaks])
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2)
    keeper.close()
    again = build()
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    (aside,) = again.run(1).set_aside_observers
    assert "no room for the table" in str(aside)
    keeper.close()


def test_seconds_add_up_over_a_runs_processes(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1)
    fed.history.seconds.update(train=1000.0, total=3000.0)
    fed.run(1)
    keeper.close()
    again = build()
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    seconds = again.run(1).seconds
    assert 1000 < seconds["train"] < 2000
    assert 3000 < seconds["total"] < 4000
    keeper.close()


def test_what_was_gone_on_with_would_be_written_as_it_was_read(tmp_path):
    """No field is left out: there is nothing in what is written that restoring does not take."""
    fed = build("mmt", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(3, requests=[erase({3: [1, 2]}, round=1), erase(1, round=2)])
    keeper.checkpoint(fed)
    keeper.close()
    again = build("mmt", "sync")
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    assert dump(again, events=False).content == dump(fed, events=False).content
    keeper.close()


@pytest.mark.parametrize("steps", [4, 5, 6])
def test_when_each_client_joined_is_known_when_a_run_is_gone_on_with(tmp_path, steps):
    """Exact-Fun, which goes back to older rounds, asks in each for those who were there then."""
    asked = (join([7], round=2), join([6], round=3), erase(1, round=4))
    whole = build("exact-fun", "sync")
    keeper = RunKeeper.create(whole, tmp_path / "whole")
    want = story(whole.run(6, requests=asked))
    keeper.close()
    fed = build("exact-fun", "sync")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(6, requests=asked)
    for _ in range(steps):
        fed.step()
    keeper.close()
    fed = build("exact-fun", "sync")
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    assert story(fed.resume()) == want
    keeper.close()
