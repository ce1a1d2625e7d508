"""A write that failed is taken up again by the same process, before all else, and logged once."""

import sqlite3
from itertools import count

import pytest
from kept_runs import REQUESTS, ROUNDS, build, fast_folder, remove_tree, story

from support import ToyEngine
from unknot.core.errors import StoreError
from unknot.core.requests import erase, join
from unknot.store import Database, files
from unknot.store import keeper as keeping
from unknot.store.entries import read_named
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import FINISHED, look


class Looking(ToyEngine):
    """Notes what it finds whenever it is asked to train."""

    def __init__(self) -> None:
        super().__init__()
        self.look = None
        self.found: list[object] = []

    def train(self, jobs, data):
        if self.look is not None:
            self.found.append(self.look())
        return super().train(jobs, data)


@pytest.fixture
def kept(tmp_path):
    engine = Looking()
    fed = build(engine=engine)
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    yield fed, keeper, engine
    keeper.close()


def ask(keeper, request):
    """Leave a request, as another process would."""
    with Database.open(keeper.folder / "run.db") as db:
        return leave(db, request, keeper.keyring)


def failing_once(monkeypatch, place, name):
    """The disk is full, once."""
    whole = getattr(place, name)

    def full(*told, **more):
        monkeypatch.setattr(place, name, whole)
        raise StoreError("the disk is full")

    monkeypatch.setattr(place, name, full)


def erased(keeper):
    """Whether the erasure of client 1 has reached the disk."""
    return keeper.keyring.destroyed(1) and keeper.db.last("erased") is not None


def test_an_erasure_that_could_not_be_kept_is_before_anybody_trains_again(kept, monkeypatch):
    fed, keeper, engine = kept
    keep = keeper.checkpoint

    def full(one):
        if keeper.unkept.erased:
            monkeypatch.setattr(keeper, "checkpoint", keep)
            raise StoreError("the disk is full")
        keep(one)

    monkeypatch.setattr(keeper, "checkpoint", full)
    with pytest.raises(StoreError, match="full"):
        fed.run(3, requests=[erase(1, round=1)])
    assert not erased(keeper)
    engine.look = lambda: erased(keeper)
    fed.step()
    assert engine.found == [True]


def test_a_removal_that_failed_is_done_before_anybody_trains_again(kept, monkeypatch):
    fed, keeper, engine = kept
    failing_once(monkeypatch, keeping.erasing, "scrub")
    with pytest.raises(StoreError, match="full"):
        fed.run(3, requests=[erase(1, round=1)])
    assert keeper.db.last("scrubbing") is not None
    assert not erased(keeper)
    engine.look = lambda: erased(keeper)
    fed.step()
    assert engine.found == [True]


def test_that_a_request_was_served_is_noted_before_anybody_trains_again(kept, monkeypatch):
    fed, keeper, engine = kept
    fed.begin(3, requests=[join([7], round=50)])
    fed.step()
    ask(keeper, join([7]))
    failing_once(monkeypatch, keeper.db, "done")
    with pytest.raises(StoreError, match="full"):
        fed.step()
    assert [asked.state for asked in keeper.db.asked()] == ["taken"]
    engine.look = lambda: [asked.state for asked in keeper.db.asked()]
    fed.step()
    assert engine.found == [["served"]]


@pytest.mark.parametrize("where", ["db:commit", "db:committed"])
def test_what_happened_is_in_the_log_once_whether_it_was_written_or_not(where):
    """Who is interrupted just before a commit, or just after it, cannot know whether it came to be."""
    base = fast_folder()
    try:
        whole = kept_whole(base / "whole")
        for moment in count(4, 3):  # the first ones are before the run is begun
            fed, left = build(), count(1)

            def full(name):
                if name == where and next(left) == moment:  # noqa: B023
                    raise sqlite3.OperationalError("database or disk is full")

            keeper = RunKeeper.create(fed, base / str(moment), every=0.0)
            files.hook = full
            try:
                fed.run(ROUNDS, requests=REQUESTS)
            except sqlite3.OperationalError:
                files.hook = None
                fed.resume()
            else:
                break
            finally:
                files.hook = None
                keeper.close()
            assert logged(base / str(moment)) == whole[1], moment
            assert story(fed.history) == whole[0], moment
        assert moment > 10
    finally:
        remove_tree(base)


def kept_whole(folder):
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    told = story(fed.run(ROUNDS, requests=REQUESTS))
    keeper.close()
    return told, logged(folder)


def logged(folder):
    """What the log says that happened, and how often it says that something was erased."""
    with Database.open(folder / "run.db", readonly=True) as db:
        removed = [len(list(db.entries(kind=kind))) for kind in ("scrubbing", "erased")]
        return [entry.body for entry in db.entries(kind="event")], removed


def test_what_a_later_run_was_asked_is_kept_before_anything_of_it_happens_also_at_the_second_try(
    kept, monkeypatch
):
    fed, keeper, engine = kept
    fed.run(2)
    failing_once(monkeypatch, keeping.RunKeeper, "checkpoint")
    with pytest.raises(StoreError, match="the disk is full"):
        fed.run(4, requests=[erase(1, round=5)])
    engine.look = lambda: read_named(keeper.db.last("checkpoint").body).stopped
    fed.step()
    assert engine.found == [""]
    keeper.place.close()  # killed
    again = build()
    keeper = RunKeeper.go_on(again, keeper.folder)
    assert [str(request) for request in again.pending] == ["erase client 1"]
    assert [served.request for served in again.resume().served] == ["erase client 1"]
    keeper.close()


def test_the_last_checkpoint_is_tried_again_before_the_run_counts_as_ended(kept, monkeypatch):
    fed, keeper, _ = kept
    fed.run(2)
    fed.begin(2)
    fed.step()
    failing_once(monkeypatch, keeping.RunKeeper, "checkpoint")
    with pytest.raises(StoreError, match="the disk is full"):
        fed.resume()
    assert len(fed.resume().rounds) == 4
    keeper.close()
    found = look(keeper.folder)
    assert (found.state, found.rounds) == (FINISHED, 4)
