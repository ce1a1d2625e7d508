"""Looking on: the last few events at first, then what is new, and never the whole log again."""

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.core.requests import erase, join
from unknot.federation import Served
from unknot.store import watching
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.look import look
from unknot.store.watching import FEW, Watching
from unknot.unlearn import RFS


@pytest.fixture
def kept(tmp_path):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(FEW + 3)
    yield fed, tmp_path / "run"
    keeper.close()


def test_the_last_few_are_seen_first_and_then_each_event_once(kept):
    fed, folder = kept
    one = Watching(folder)
    assert [event.round for event in one.look()[1]] == [4, 5, 6, 7, 8]
    assert one.look()[1] == []
    fed.run(2)
    assert [event.round for event in one.look()[1]] == [9, 10]


def told(watching):
    events = watching.look()[1]
    return [watching.told(event) if isinstance(event, Served) else event.round for event in events]


def test_events_come_as_they_happened_and_who_is_there_has_a_name(tmp_path):
    names = {0: "Graz", 1: "Linz", 2: "Wels", 3: "Wien"}
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)).replaced(names=names), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    one = Watching(tmp_path / "run")
    fed.begin(6, requests=[join([3], round=2), join([2], round=5), erase(1, round=1)])
    keeper.checkpoint(fed)
    one.look()
    fed.resume()
    assert told(one) == [1, "erase client 1", 2, "join Wien", 3, 4, 5, "join Wels", 6]
    assert told(Watching(tmp_path / "run")) == [3, 4, 5, "join Wels", 6]
    keeper.close()


def test_what_is_seen_is_what_a_whole_look_says(kept):
    fed, folder = kept
    one = Watching(folder)
    one.look()
    for requests in ((), erase(1, round=FEW + 4), ()):
        fed.run(1, requests=requests)
        found, expected = one.look()[0], look(folder)
        for name in ("state", "rounds", "time", "kept", "stopped", "paused", "holder", "requests"):
            assert getattr(found, name) == getattr(expected, name), name
    fed.close()
    assert one.look()[0].state == "finished"


def test_a_request_that_waits_is_seen_although_the_log_does_not_have_it(kept):
    fed, folder = kept
    one = Watching(folder)
    one.look()
    fed.inbox.put(erase(1))
    assert [wanted.state for wanted in one.look()[0].requests] == ["waiting"]


def test_rounds_alone_are_no_reason_to_go_through_the_log_again(kept, monkeypatch):
    fed, folder = kept
    one = Watching(folder)
    fed.begin(3)
    fed.step()  # that somebody goes on with it is one
    one.look()
    monkeypatch.setattr(watching, "look", lambda *_: pytest.fail("the whole log is read again"))
    for _ in range(2):
        fed.step()
        keeper_of(fed).checkpoint(fed)
        assert one.look()[0].rounds == len(fed.history.rounds)


def test_what_happens_while_one_looks_is_told_before_a_run_is_said_to_be_over(tmp_path, monkeypatch):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(6, requests=[join([3], round=4)])
    while len(fed.history.rounds) < 2:
        fed.step()
    one = Watching(tmp_path / "run")
    one.look()
    fed.inbox.put(erase(1))  # so that all of the folder is looked at

    def ends_meanwhile(*place):
        monkeypatch.setattr(watching, "look", look)
        fed.resume()
        keeper.close()
        return look(*place)

    monkeypatch.setattr(watching, "look", ends_meanwhile)
    found, events, before = one.look()
    told = [getattr(event, "request", event.round) for event in events]
    assert (found.state, before) == ("finished", 0)
    assert told == ["erase client 1", 3, 4, "join client 3", 5, 6]
    assert one.look()[1] == []
