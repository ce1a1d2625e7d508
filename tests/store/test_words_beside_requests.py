"""Requests beside the words pause, go and stop, before and after a resumption: none is lost, none is late."""

import pytest
from kept_runs import build

from support import ToyEngine
from unknot.core.errors import RunStopped, StoreError
from unknot.core.requests import erase, join
from unknot.store import post
from unknot.store.database import Database
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS

pytest.importorskip("cryptography")
pytestmark = pytest.mark.usefixtures("in_time")
LATER = join([7], round=99)


class Gone(BaseException):
    """The process is gone."""


def die(*_):
    raise Gone


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(post, "PAUSED", 0.0)


def say(folder, *what):
    with Database.open(folder / DATABASE) as db:
        for one in what:
            if isinstance(one, str):
                db.ask(one, b"", "tester")
            else:
                leave(db, one, Keyring(folder / KEYS))


def at(keeper, step, do):
    """Have something done once, before the run looks at what was asked at that step."""
    requests, left = keeper.requests, [do]

    def first(fed):
        if fed.steps == step and left:
            left.pop()()
        return requests(fed)

    keeper.requests = first


def stopped(folder, *words):
    """A run to which words were said at its third step, the last of which has it stop."""
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder)
    at(keeper, 2, lambda: say(folder, *words))
    with pytest.raises(RunStopped):
        fed.run(8, requests=LATER)
    keeper.close()


def resumed(folder, engine=None, *rounds):
    fed = build("rfs", "sync", engine=engine)
    keeper = RunKeeper.go_on(fed, folder)
    history = fed.resume(*rounds)
    keeper.close()
    return fed, history


def is_killed(folder, step, kept):
    """Gone on with, kept at a step, and killed at another."""

    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, folder)
    at(keeper, kept, lambda: setattr(keeper, "_due", 0.0))
    at(keeper, step, die)
    with pytest.raises(Gone):
        fed.resume()
    keeper.place.close()


WORDS = [["stop"], ["pause", "stop"], ["pause", "go", "stop"], ["pause", "pause", "stop"]]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_request_among_the_words_that_stop_a_run_is_served_at_its_resumption_and_stays_so(
    tmp_path, words, place
):
    said = [*words[:place], join([7]), *words[place:]]
    stopped(tmp_path / "run", *said)
    is_killed(tmp_path / "run", step=5, kept=2)
    fed, history = resumed(tmp_path / "run")
    assert [served.request for served in history.served] == ["join client 7"]
    assert [served.round for served in history.served] == [2]
    assert 7 in fed.state.members


@pytest.mark.parametrize("words", WORDS)
def test_who_is_to_be_erased_from_a_stopped_run_is_not_trained_on_when_it_is_resumed(tmp_path, words):
    stopped(tmp_path / "run", *words)
    say(tmp_path / "run", erase(1))
    engine = ToyEngine()
    _, history = resumed(tmp_path / "run", engine)
    assert [served.round for served in history.served] == [2]
    assert all(job.client != 1 for call in engine.calls for job in call)


def test_so_it_is_where_the_process_that_went_on_after_a_pause_was_killed(tmp_path):
    folder = tmp_path / "run"
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder, every=0.0)
    at(keeper, 2, lambda: say(folder, "pause", "go"))
    fed.begin(8, requests=LATER)
    for _ in range(6):
        fed.step()
    keeper.place.close()
    say(folder, erase(1))
    engine = ToyEngine()
    again, _ = resumed(folder, engine)
    assert all(job.client != 1 for call in engine.calls for job in call)
    assert 1 in again.state.forgotten


def test_so_it_is_where_a_run_that_is_over_had_refused_something(tmp_path):
    folder = tmp_path / "run"
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder)
    fed.run(3, requests=LATER)
    keeper.close()
    say(folder, join([0]))
    resumed(folder)
    say(folder, erase(1))
    engine = ToyEngine()
    _, history = resumed(folder, engine, 2)
    assert len(history.served) == 1
    assert all(job.client != 1 for call in engine.calls for job in call)


def test_a_request_that_was_taken_as_the_run_was_stopped_is_heard_when_the_same_process_goes_on(tmp_path):
    folder = tmp_path / "run"
    stopped(folder, "pause", erase(1), "stop")
    fed = build("rfs", "sync")
    keeper = RunKeeper.go_on(fed, folder)
    at(keeper, 2, lambda: say(folder, "stop"))
    with pytest.raises(RunStopped):
        fed.resume()
    history = fed.resume()
    keeper.close()
    assert [(served.request, served.round) for served in history.served] == [("erase client 1", 2)]


def test_requests_are_served_in_the_order_in_which_they_came_whatever_was_said_between_them(tmp_path):
    folder = tmp_path / "run"
    said = ["pause", erase(2), erase({4: [0]}), "go", "stop", erase(1), "pause"]
    stopped(folder, *said)
    say(folder, erase({5: [1]}))
    _, history = resumed(folder)
    told = ["erase client 2", "erase 1 sample of client 4", "erase client 1", "erase 1 sample of client 5"]
    assert [served.request for served in history.served] == told


def test_what_waits_already_is_not_taken_twice_where_a_refusal_failed_and_the_run_was_paused(
    tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder)
    fed.begin(8, requests=LATER)
    fed.step()
    say(folder, join([0]), erase(1))
    done = Database.done

    def full(*told):
        monkeypatch.setattr(Database, "done", done)
        raise StoreError("the disk is full")

    monkeypatch.setattr(Database, "done", full)
    with pytest.raises(StoreError, match="the disk is full"):
        fed.step()
    say(folder, "pause")
    monkeypatch.setattr(post.time, "sleep", die)
    with pytest.raises(Gone):
        fed.step()
    keeper.place.close()
    monkeypatch.undo()
    _, history = resumed(folder)
    assert [served.request for served in history.served] == ["erase client 1"]
    with Database.open(folder / DATABASE, readonly=True) as db:
        assert [asked.state for asked in db.asked()] == ["refused", "served", "served"]


def test_a_run_that_is_over_and_was_stopped_as_it_took_a_request_serves_it_when_it_goes_on(tmp_path):
    folder = tmp_path / "run"
    fed = build("rfs", "sync")
    keeper = RunKeeper.create(fed, folder)
    fed.run(3, requests=LATER)
    ticket = fed.inbox.put(erase(1))
    say(folder, "stop")
    with pytest.raises(RunStopped):
        fed.resume()
    history = fed.resume()
    keeper.close()
    assert [served.request for served in history.served] == ["erase client 1"]
    assert ticket.state == "served"
