"""Whether somebody goes on with a run, or only holds it, is what its folder says: whoever it is."""

import pytest
from kept_runs import build

from unknot.core.errors import ConfigError, RunStopped
from unknot.store.database import Database
from unknot.store.keeper import RunKeeper
from unknot.store.look import look

pytest.importorskip("cryptography")


def test_a_run_that_was_made_and_never_run_is_held_and_does_not_run(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    seen = [look(tmp_path / "run").state]
    fed.begin(3)
    seen.append(look(tmp_path / "run").state)
    fed.step()
    seen.append(look(tmp_path / "run").state)
    keeper.close()
    assert [*seen, look(tmp_path / "run").state] == ["stopped", "stopped", "running", "stopped"]


def test_a_command_goes_on_with_a_run_from_the_moment_that_it_takes_it(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", command=True)
    assert [entry.kind for entry in keeper.db.entries()][:2] == ["begun", "going"]
    assert (look(tmp_path / "run").state, look(tmp_path / "run").command) == ("running", True)
    fed.run(2)
    keeper.close()
    fed = build()
    keeper = RunKeeper.go_on(fed, tmp_path / "run", command=True)
    assert [entry.kind for entry in keeper.db.entries()][-2:] == ["resumed", "going"]
    assert look(tmp_path / "run").state == "running"  # it is over, and may be asked for more
    fed.resume()
    assert (look(tmp_path / "run").state, look(tmp_path / "run").idle) == ("finished", True)
    fed.resume(1)
    assert (look(tmp_path / "run").state, look(tmp_path / "run").idle) == ("finished", True)
    keeper.close()
    assert not look(tmp_path / "run").command


@pytest.mark.parametrize("by_hand", [False, True])
def test_an_observer_makes_no_steps_while_another_is_made(by_hand):
    told, box = [], []

    def nested(event):
        with pytest.raises(ConfigError, match="the federation is running") as error:
            box[0].step()
        told.append(error)

    fed = build(observers=[nested])
    box.append(fed)
    if by_hand:
        fed.begin(2)
        while not fed.over:
            fed.step()
    else:
        fed.run(2)
    assert len(told) == len(fed.history.rounds) + len(fed.history.served)
    assert not fed.history.set_aside_observers


def test_steps_by_hand_of_a_run_that_is_told_to_stop_end_in_its_being_held(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.begin(3)
    fed.step()
    with Database.open(tmp_path / "run" / "run.db") as db:
        db.ask("stop", b"", "somebody")
    with pytest.raises(RunStopped):
        fed.step()
    assert look(tmp_path / "run").state == "stopped"
    keeper.close()
