"""A run that is over, and is asked for something: it goes on for what it can do, and for nothing else."""

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import ConfigError, RunStopped
from unknot.core.requests import erase, join
from unknot.federation.watcher import Watcher
from unknot.store import keeper as keeping
from unknot.store.database import Database
from unknot.store.folder import is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS
from unknot.unlearn import RFS


class Gone(BaseException):
    """The process is gone."""


def build():
    return toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())


def over(folder, rounds=3):
    """A run of so many rounds, which nobody holds any more."""
    fed = build()
    RunKeeper.create(fed, folder)
    fed.run(rounds)
    fed.close()
    return fed


def again(folder):
    fed = build()
    RunKeeper.go_on(fed, folder)
    return fed


def ask(folder, request):
    with Database.open(folder / DATABASE) as db:
        return leave(db, request, Keyring(folder / KEYS))


def test_resume_serves_what_was_asked_and_goes_on_until_its_stopping_rule_holds_again(tmp_path):
    whole = build()
    whole.run(3)
    whole.inbox.put(erase(1))
    expected = whole.run(3)
    over(tmp_path / "run")
    ask(tmp_path / "run", erase(1))
    fed = again(tmp_path / "run")
    history = fed.resume()
    assert [served.request for served in history.served] == ["erase client 1"]
    assert fed.inbox.ticket(1).state == "served"
    assert len(history.rounds) == 6
    assert history.model.digest() == expected.model.digest()


def test_a_federation_in_memory_does_the_same(tmp_path):
    fed = build()
    fed.run(3)
    ticket = fed.inbox.put(erase(1))
    assert len(fed.resume().rounds) == 6
    assert ticket.state == "served"
    assert len(fed.resume().rounds) == 6


def test_what_can_only_be_refused_trains_nothing(tmp_path):
    model = over(tmp_path / "run").model.digest()
    ask(tmp_path / "run", join([2]))
    ask(tmp_path / "run", erase({1: [999]}))
    fed = again(tmp_path / "run")
    steps = fed.steps
    history = fed.resume()
    assert [one.state for one in keeper_of(fed).db.asked()] == ["refused", "refused"]
    assert keeper_of(fed).turned_away == [1, 2]
    assert (fed.steps, len(history.rounds), history.model.digest()) == (steps, 3, model)
    fed.close()
    assert len(again(tmp_path / "run").resume().rounds) == 3


def test_what_was_taken_up_by_a_process_that_died_then_is_served_by_the_next(tmp_path, monkeypatch):
    over(tmp_path / "run")
    ask(tmp_path / "run", join([2]))
    ask(tmp_path / "run", erase(1))
    fed = again(tmp_path / "run")
    keeper = keeper_of(fed)

    def gone(*_):
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(keeping.RunKeeper, "checkpoint", gone)
        with pytest.raises(Gone):
            fed.resume()
    assert [one.state for one in keeper.db.asked()] == ["refused", "taken"]
    keeper.close()
    fed = again(tmp_path / "run")
    history = fed.resume()
    assert [one.state for one in keeper_of(fed).db.asked()] == ["refused", "served"]
    assert len(history.rounds) == 6


@pytest.mark.parametrize("kept", [True, False])
def test_more_rounds_do_not_change_the_rule_that_a_run_stops_by(tmp_path, kept):
    fed = build()
    if kept:
        RunKeeper.create(fed, tmp_path / "run")
    fed.run(4)
    fed.run(1)
    if kept:
        fed.close()
        fed = again(tmp_path / "run")
    ticket = fed.inbox.put(erase(1))
    assert len(fed.resume().rounds) == 4 + 1 + 4
    assert ticket.state == "served"
    fed.inbox.put(erase(2))
    assert len(fed.resume().rounds) == 9 + 4


def test_a_run_that_goes_by_time_is_called_back_for_that_time_after_more_rounds():
    fed = build()
    first = fed.run(seconds=20.0).rounds[-1].time
    fed.run(1)
    since = fed.state.now / 1e9
    fed.inbox.put(erase(1))
    end = fed.resume().rounds[-1].time
    assert first <= 20.0
    assert since < end <= since + 20.0
    assert fed.history.stopped == "seconds"


def test_a_run_that_stops_at_an_accuracy_is_called_back_until_it_has_it_again():
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
    fed.run(9, accuracy=0.01)
    assert fed.history.stopped == "accuracy"
    fed.run(2)
    fed.inbox.put(erase(1))
    before = len(fed.history.rounds)
    fed.resume()
    assert fed.history.stopped == "accuracy"
    assert len(fed.history.rounds) == before + 1


def test_rounds_that_are_asked_for_take_the_place_of_those_of_the_rule(tmp_path):
    over(tmp_path / "run", 4)
    ask(tmp_path / "run", erase(1))
    fed = again(tmp_path / "run")
    history = fed.resume(2)
    assert len(history.rounds) == 4 + 2
    assert [served.request for served in history.served] == ["erase client 1"]
    assert fed.inbox.ticket(1).state == "served"


def breaks_at(fed, rounds):
    """The process is gone once there are so many rounds; what it kept last is all of them."""

    class Breaks(Watcher):
        def stepped(self, fed, events, done):
            if len(fed.history.rounds) >= rounds:
                keeper_of(fed).checkpoint(fed)
                raise Gone

    fed.watchers.append(Breaks())


def resumed(folder, rounds, until=None):
    """What the same command does in a process of its own, which may break off."""
    fed = again(folder)
    if until is not None:
        breaks_at(fed, until)
    try:
        history = fed.resume(rounds)
        return len(history.rounds), history.model.digest()
    except Gone:
        return None
    finally:
        fed.close()


@pytest.mark.parametrize("asks", [False, True])
def test_the_same_command_after_a_crash_ends_where_it_would_have_ended(tmp_path, asks):
    for name in ("whole", "broken"):
        over(tmp_path / name, 5)
        if asks:
            ask(tmp_path / name, erase(1))
    expected = resumed(tmp_path / "whole", 5)
    assert expected[0] == 10
    assert resumed(tmp_path / "broken", 5, until=7) is None
    assert resumed(tmp_path / "broken", 5, until=9) is None
    assert resumed(tmp_path / "broken", 5) == expected
    assert resumed(tmp_path / "broken", 5)[0] == 15  # nothing was under way: these are five more


def asked_as_it_ends(fed):
    """Somebody asks for an erasure once, just as what was asked for ends."""
    left = [1]

    class Asks(Watcher):
        def stepped(self, fed, events, done):
            if fed.over and left:
                fed.inbox.put(erase(left.pop()))

    fed.watch(Asks())


def test_more_rounds_that_led_to_what_is_under_way_are_not_added_again(tmp_path):
    """Something is asked as they end: it is served, trained for by the rule, and broken off there."""
    over(tmp_path / "run", 4)
    fed = again(tmp_path / "run")
    breaks_at(fed, 9)
    asked_as_it_ends(fed)
    with pytest.raises(Gone):
        fed.resume(3)
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 4
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 4 + 3


def gone_before_it_returns(folder, rounds, monkeypatch):
    """All rounds are trained and kept; who asked for them never gets them."""

    def gone(*_):
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(RunKeeper, "ended", gone)
        assert resumed(folder, rounds) is None


def test_more_rounds_that_who_asked_never_got_are_given_and_not_added_again(tmp_path, monkeypatch):
    over(tmp_path / "run", 4)
    gone_before_it_returns(tmp_path / "run", 3, monkeypatch)
    assert resumed(tmp_path / "run", 3) == (4 + 3, build().run(7).model.digest())
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 3  # those were got: these are more


def test_nothing_is_waited_for_between_the_word_that_they_are_given_and_their_return(tmp_path, monkeypatch):
    """A reader of the database may be in the way for seconds then: who is killed meanwhile got nothing."""
    over(tmp_path / "run", 4)
    fed, emptying = again(tmp_path / "run"), keeping.RunKeeper._empty_rest

    def gone(keeper, within=0.0):
        if within and fed.over:
            raise Gone
        emptying(keeper, within)

    with monkeypatch.context() as patch:
        patch.setattr(keeping.RunKeeper, "_empty_rest", gone)
        with pytest.raises(Gone):
            fed.resume(3)
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3


def test_who_is_killed_as_they_are_returned_counts_as_who_got_them(tmp_path, monkeypatch):
    """Nothing on the disk can tell the two apart: all that is written is written before."""
    over(tmp_path / "run", 4)
    ended = RunKeeper.ended

    def gone(*given):
        ended(*given)
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(RunKeeper, "ended", gone)
        assert resumed(tmp_path / "run", 3) is None
    fed = again(tmp_path / "run")
    assert len(fed.resume().rounds) == 4 + 3  # so it can be counted, and asked for what is missing
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 3


def test_resume_with_a_number_ends_as_many_more_rounds_that_run_was_asked_for(tmp_path):
    """But not those of the first run, which are the rule and no more than that."""
    over(tmp_path / "run", 2)
    fed = again(tmp_path / "run")
    breaks_at(fed, 4)
    with pytest.raises(Gone):
        fed.run(3)
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 2 + 3
    broken_off(tmp_path / "first", 5)
    assert resumed(tmp_path / "first", 5)[0] == 5 + 5


def test_what_comes_before_they_are_asked_for_again_is_served_by_the_rule(tmp_path, monkeypatch):
    over(tmp_path / "run", 4)
    gone_before_it_returns(tmp_path / "run", 3, monkeypatch)
    ask(tmp_path / "run", erase(1))
    assert resumed(tmp_path / "run", 3, until=9) is None
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 4


def test_rounds_that_are_owed_stay_so_where_another_call_that_was_broken_off_came_between(tmp_path):
    over(tmp_path / "run", 4)
    assert resumed(tmp_path / "run", 3, until=6) is None
    fed = again(tmp_path / "run")
    breaks_at(fed, 9)
    asked_as_it_ends(fed)
    with pytest.raises(Gone):
        fed.resume()
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 4


def test_rounds_that_were_got_are_so_after_a_later_checkpoint_too(tmp_path):
    over(tmp_path / "run", 4)
    fed = again(tmp_path / "run")
    fed.resume(3)
    keeper_of(fed).checkpoint(fed)  # as a pause makes one
    fed.close()
    assert resumed(tmp_path / "run", 3)[0] == 4 + 3 + 3


def test_rounds_that_were_made_step_by_step_were_got():
    fed = build()
    fed.run(4)
    fed.begin(3)
    while not fed.over:
        fed.step()
    assert len(fed.resume(3).rounds) == 4 + 3 + 3


def test_what_was_under_way_is_ended_before_there_is_more(tmp_path):
    broken_off(tmp_path / "run", 5)
    assert resumed(tmp_path / "run", 5, until=3) is None
    assert resumed(tmp_path / "run", 5, until=8) is None
    assert resumed(tmp_path / "run", 3, until=11) is None  # the five, and then these
    assert resumed(tmp_path / "run", None)[0] == 13
    fed = build().run(13)
    assert resumed(tmp_path / "run", None) == (13, fed.model.digest())


def test_rounds_that_are_no_number_of_rounds_are_refused(tmp_path):
    over(tmp_path / "run", 3)
    with pytest.raises(ConfigError, match="rounds must be at least 1"):
        again(tmp_path / "run").resume(0)


def broken_off(folder, rounds=5, **parts):
    fed = build()
    RunKeeper.create(fed, folder)
    fed.begin(rounds, **parts)
    fed.step()
    fed.step()
    keeper_of(fed).checkpoint(fed)
    fed.close()


def test_a_run_that_was_broken_off_is_not_run_for_longer_without_a_word(tmp_path):
    broken_off(tmp_path / "run")
    fed = again(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"run was broken off at round 2 of 5: fed\.resume\(\) finishes it"):
        fed.run(5)
    assert len(fed.resume().rounds) == 5
    assert len(fed.run(2).rounds) == 7


def test_a_script_that_is_started_again_and_again_comes_to_the_same_end(tmp_path):
    def script():
        fed = build()
        (RunKeeper.go_on if is_kept(tmp_path / "run") else RunKeeper.create)(fed, tmp_path / "run")
        history = fed.run(5) if fed.history is None else fed.resume()
        fed.close()
        return len(history.rounds), history.model.digest()

    broken_off(tmp_path / "run")
    assert script() == script() == (5, build().run(5).model.digest())


def test_of_one_that_goes_by_time_it_is_said_how_much_of_it_is_over(tmp_path):
    broken_off(tmp_path / "run", None, seconds=50.0)
    with pytest.raises(ConfigError, match=r"broken off after [0-9.]+ of 50 simulated s"):
        again(tmp_path / "run").run(5)


def test_one_that_was_stopped_says_how_a_run_from_python_is_gone_on_with(tmp_path):
    fed = build()
    RunKeeper.create(fed, tmp_path / "run")
    with Database.open(tmp_path / "run" / DATABASE) as db:
        db.ask("stop", b"", "tester")
    with pytest.raises(RunStopped, match=r"store=.*call resume\(\)") as stopped:
        fed.run(2)
    assert "unknot resume" not in str(stopped.value)
