"""The words pause, go and stop: taken in their order, and what is said of the run meanwhile is so."""

import itertools
import threading
import time

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import RunStopped
from unknot.core.requests import erase
from unknot.store import database, post
from unknot.store.database import Database
from unknot.store.entries import read_named
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.look import look
from unknot.store.noted import DATABASE, KEYS
from unknot.store.words import rests
from unknot.unlearn import RFS

pytestmark = pytest.mark.usefixtures("in_time")


class Gone(BaseException):
    """The process is gone."""


def build():
    return toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())


def say(folder, *words):
    with Database.open(folder / DATABASE) as db:
        for word in words:
            if word.startswith("erase "):
                leave(db, erase(int(word.split()[1])), Keyring(folder / KEYS))
            else:
                db.ask(word, b"", "tester")


def told(folder):
    found = look(folder)
    return "paused" if found.paused else "pausing" if found.pausing else ""


def run_with(folder, monkeypatch, first, later):
    """Run to the end with words that come before it, and others that come one at each moment of a pause.

    What is said of the run when it waits; a run that waits with no word to come is a failure.
    """
    fed, seen, left = build(), [], list(later)
    keeper = RunKeeper.create(fed, folder)
    say(folder, *first)

    def sleep(seconds):
        seen.append(told(folder))
        if not left:
            raise Gone
        say(folder, left.pop(0))

    with monkeypatch.context() as patch:
        patch.setattr(post.time, "sleep", sleep)
        try:
            fed.run(2)
        except RunStopped:
            seen.append("stopped")
        except Gone:
            seen.append("stuck")
        else:
            seen.append("over")
    seen.append(told(folder))
    keeper.close()
    return seen


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        (["pause"], ["go"], ["paused", "over", ""]),
        (["pause", "pause"], ["go"], ["paused", "over", ""]),
        (["pause"], ["pause", "go"], ["paused", "paused", "over", ""]),
        (["pause", "go", "pause"], ["go"], ["paused", "over", ""]),
        (["pause", "go"], [], ["over", ""]),
        (["go", "pause"], ["stop"], ["paused", "stopped", ""]),
        (["pause", "stop"], [], ["stopped", ""]),
        (["pause", "erase 1"], ["erase 2", "go"], ["paused", "paused", "over", ""]),
        (["pause"], [], ["paused", "stuck", ""]),
    ],
)
def test_words_are_taken_in_order_and_the_look_is_right(tmp_path, monkeypatch, first, later, expected):
    assert run_with(tmp_path / "run", monkeypatch, first, later) == expected


@pytest.mark.parametrize("words", list(itertools.product(["pause", "go", "stop"], repeat=3)))
def test_every_order_of_three_words_ends_as_said_one_after_the_other(tmp_path, monkeypatch, words):
    *_, end, after = run_with(tmp_path / "run", monkeypatch, words, [])
    before = words[: words.index("stop")] if "stop" in words else words
    expected = "stopped" if "stop" in words else "stuck" if before[-1] == "pause" else "over"
    assert (end, after in ("", "pausing")) == (expected, True)
    late = words[len(before) + 1 :]  # said to a process that has stopped: waits for nobody
    assert (after == "pausing") == (late[-1:] == ("pause",))


def test_a_paused_run_rests_until_a_word_other_than_pause_waits(tmp_path, monkeypatch):
    folder, seen, left = tmp_path / "run", [], ["pause", "pause", "go"]
    fed = build()
    keeper = RunKeeper.create(fed, folder)
    say(folder, "pause")

    def sleep(seconds):
        while left:
            say(folder, left.pop(0))
            with Database.open(folder / DATABASE, readonly=True) as db:
                seen.append(rests(db))

    monkeypatch.setattr(post.time, "sleep", sleep)
    fed.run(2)
    keeper.close()
    assert seen == [True, True, False]


def test_requests_that_came_around_a_pause_are_served_in_their_order(tmp_path, monkeypatch):
    run_with(tmp_path / "run", monkeypatch, ["pause", "erase 2", "pause"], ["erase 1", "go"])
    with Database.open(tmp_path / "run" / DATABASE, readonly=True) as db:
        assert {one.state for one in db.asked()} == {"served"}
    assert [one.order for one in look(tmp_path / "run").requests if one.kind == "erase"] == [0, 1]


def test_a_request_that_came_in_a_pause_outlives_a_process_that_goes_on_and_dies(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run_with(folder, monkeypatch, ["pause"], ["erase 1"])
    again = build()
    keeper = RunKeeper.go_on(again, folder)
    history = again.resume()
    assert [served.request for served in history.served] == ["erase client 1"]
    assert told(folder) == ""
    keeper.close()


def test_a_run_that_is_paused_says_so_itself(tmp_path, monkeypatch, caplog):
    run_with(tmp_path / "run", monkeypatch, ["pause"], ["go"])
    assert f"{tmp_path / 'run'} is paused, and kept; it goes on with: unknot resume" in caplog.text


def test_a_pause_that_was_not_taken_up_is_pausing(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    say(tmp_path / "run", "pause")
    assert told(tmp_path / "run") == "pausing"
    say(tmp_path / "run", "go")
    assert told(tmp_path / "run") == ""
    keeper.close()
    assert told(tmp_path / "run") == ""


def test_after_a_stop_in_a_pause_the_resumed_run_is_not_paused(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run_with(folder, monkeypatch, ["pause"], ["stop"])
    again = build()
    keeper = RunKeeper.go_on(again, folder)
    assert told(folder) == ""
    again.resume()
    assert told(folder) == ""
    keeper.close()


def test_a_run_that_was_paused_twice_goes_on_at_one_word_in_another_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(post, "PAUSED", 0.01)
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    say(tmp_path / "run", "pause", "pause")
    thread = threading.Thread(target=fed.run, args=(2,), daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while told(tmp_path / "run") != "paused":
        assert time.monotonic() < end
        time.sleep(0.01)
    say(tmp_path / "run", "go")
    thread.join(20)
    assert not thread.is_alive()
    assert fed.over
    keeper.close()


def test_a_clock_that_goes_back_changes_nothing_of_it(tmp_path, monkeypatch):
    hours = itertools.count(20, -1)
    monkeypatch.setattr(database, "_now", lambda: f"2026-01-{next(hours) + 400:03}")
    folder = tmp_path / "run"
    assert run_with(folder, monkeypatch, ["pause"], ["stop"]) == ["paused", "stopped", ""]
    again = build()
    keeper = RunKeeper.go_on(again, folder)
    assert told(folder) == ""
    say(folder, "pause")
    with monkeypatch.context() as patch:
        seen = []

        def sleep(seconds):
            seen.append(told(folder))
            say(folder, "go")

        patch.setattr(post.time, "sleep", sleep)
        again.resume()
    assert seen == ["paused"]
    keeper.close()


@pytest.mark.parametrize("word", ["pause", "stop"])
def test_a_word_is_heard_at_the_next_step_also_while_lost_steps_are_taken_again(tmp_path, monkeypatch, word):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.run(6)
    over, digest = fed.steps, fed.model.digest()
    newest = keeper.db.last("checkpoint")
    keeper.close()
    (folder / "state" / f"{read_named(newest.body).state}.state").unlink()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)
    fed.step()
    say(folder, "erase 1", word)
    heard = []

    def sleep(seconds):
        heard.append((fed.steps, told(folder)))
        say(folder, "stop")

    monkeypatch.setattr(post.time, "sleep", sleep)
    with pytest.raises(RunStopped):
        fed.resume()
    assert fed.steps == 1
    assert heard == ([(1, "paused")] if word == "pause" else [])
    keeper.close()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)
    while fed.steps < over:
        fed.step()
    assert fed.model.digest() == digest
    assert [asked.state for asked in keeper.db.asked() if asked.kind == "erase"] == ["waiting"]
    fed.resume()
    assert [(one.request, one.round) for one in fed.history.served] == [("erase client 1", 6)]
    keeper.close()


@pytest.mark.parametrize("word", ["pause", "stop"])
def test_a_word_that_came_in_the_last_step_of_a_run_is_not_for_the_next(tmp_path, monkeypatch, word):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    monkeypatch.setattr(RFS, "conclude", lambda *_: say(tmp_path / "run", word))
    fed.run(2)
    monkeypatch.undo()
    assert [asked.state for asked in keeper.db.asked()] == ["refused"]
    assert told(tmp_path / "run") == ""
    assert len(fed.run(2).rounds) == 4
    keeper.close()
