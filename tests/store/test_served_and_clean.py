"""A request counts as served when the disk is clean, and not before; nothing of it is lost on the way."""

import os
import signal
import sqlite3

import pytest
import torch
from kept_runs import NAMES, build, dies, go, story
from vaults import digests

from support import small_data, toy_federation
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.federation import FedAvg
from unknot.store import Database, Vault, erasing, files, inbox
from unknot.store.checkpoint import STATE, Checkpoint
from unknot.store.entries import read_named
from unknot.store.folder import WEIGHTS
from unknot.store.inbox import leave, outcome_of
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS, emptied
from unknot.unlearn import RFS


def ask(folder, request):
    with Database.open(folder / DATABASE) as db:
        return leave(db, request, Keyring(folder / KEYS), by="somebody")


def state_of(folder, number=1):
    with Database.open(folder / DATABASE, readonly=True) as db:
        return next(asked for asked in db.asked() if asked.number == number)


@pytest.fixture
def over(tmp_path):
    """A run that is over, and was asked to forget client 1."""
    go(build("federaser"), tmp_path / "run", requests=())
    ask(tmp_path / "run", erase(1))
    return tmp_path / "run"


def test_while_the_disk_is_not_clean_the_request_is_not_served(over, monkeypatch):
    seen = []
    scrub = erasing.scrub

    def looked_at(*args):
        seen.append((state_of(over).state, Keyring(over / KEYS).holds(1)))
        found = scrub(*args)
        seen.append((state_of(over).state, Keyring(over / KEYS).holds(1)))
        return found

    monkeypatch.setattr(erasing, "scrub", looked_at)
    fed = build("federaser")
    keeper = RunKeeper.go_on(fed, over)
    fed.run(2)
    keeper.close()
    assert seen == [("taken", True), ("taken", False)]
    assert state_of(over).state == "served"
    assert outcome_of(state_of(over)).leavers == (1,)


@pytest.mark.parametrize("every", [0.0, 1e9])
@pytest.mark.parametrize("name", ["federaser", "rfs", "fats"])
def test_at_the_moment_a_request_counts_as_served_there_is_the_clean_checkpoint_alone(
    tmp_path, monkeypatch, name, every
):
    folder, seen = tmp_path / "run", []
    release = Database.release

    def looked_at(db, number):
        (clean,) = db.latest("checkpoint", 1)
        named = read_named(clean.body)
        assert clean.number > db.last("scrubbing").number
        seen.append(sorted(path.name for path in (folder / STATE).iterdir()) == [f"{named.state}.state"])
        kept = Vault(folder / WEIGHTS, Keyring(folder / KEYS))
        tensors = Checkpoint.read(folder, named.state).tensors
        seen.append(digests(kept) == set(tensors))
        seen.append(not Keyring(folder / KEYS).holds(1))
        return release(db, number)

    monkeypatch.setattr(Database, "release", looked_at)
    fed = build(name)
    keeper = RunKeeper.create(fed, folder, every=every)
    fed.run(2)
    ticket = fed.inbox.put(erase(1))
    fed.run(2)
    keeper.close()
    assert ticket.state == "served"
    assert seen == [True, True, True]


def test_a_removal_that_failed_and_an_end_after_it_leave_the_newest_checkpoint(tmp_path, monkeypatch):
    """The run is kept once more before it ends: what is removed then must not be that."""
    scrub, tries = erasing.scrub, []

    def full_at_first(*told):
        tries.append(told)
        if len(tries) == 1:
            raise StoreError("the disk is full")
        return scrub(*told)

    whole = build("federaser")
    whole.run(2)
    expected = story(whole.run(2, requests=erase(3, round=2)))["model"]
    fed = build("federaser")
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(2)
    monkeypatch.setattr(erasing, "scrub", full_at_first)
    with pytest.raises(StoreError, match="the disk is full"):
        fed.run(2, requests=erase(3, round=2))
    keeper.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        fed.resume()
    keeper.close()
    assert len(tries) == 2
    again = build("federaser")
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    assert not keeper.said
    assert story(again.resume())["model"] == expected
    keeper.close()


def test_killed_before_the_disk_is_clean_it_is_served_when_it_is(over):
    def run():
        fed = build("federaser")
        RunKeeper.go_on(fed, over)
        files.hook = lambda name: name == "keyring:aside" and os.kill(os.getpid(), signal.SIGKILL)
        fed.run(2)

    assert dies(0, run)
    assert state_of(over).state == "taken"
    keeper = RunKeeper.go_on(build("federaser"), over)
    try:
        assert state_of(over).state == "served"
        assert outcome_of(state_of(over)).leavers == (1,)
        assert not Keyring(over / KEYS).holds(1)
    finally:
        keeper.close()


def test_who_was_erased_before_is_left_out_and_the_others_are_erased(over, monkeypatch):
    monkeypatch.setattr(inbox, "_check_not_asked", lambda *_: None)  # all ask at one moment
    fed = build("federaser")
    RunKeeper.go_on(fed, over)
    number = fed.inbox.put(erase([1, 2])).number
    samples = [fed.inbox.put(erase({3: ids})) for ids in ([0, 1], [1, 2], [0, 2])]
    history = fed.run(2)
    fed.close()
    assert state_of(over, number).state == "served"
    assert {1, 2}.isdisjoint(history.model.lineage.clients)
    assert [ticket.state for ticket in samples] == ["served", "served", "refused"]
    assert samples[2].why == f"these samples of {NAMES[3]} were already erased"


def test_a_request_that_is_gone_from_the_inbox_is_said(over):
    with Database.open(over / DATABASE) as db:
        db._connection.execute("DELETE FROM inbox")
    fed = build("federaser")
    keeper = RunKeeper.go_on(fed, over)
    keeper.close()
    assert any(text.startswith("request 1 (erase, asked by somebody at 2") for text in keeper.said)


class Moments(FedAvg):
    """Keeps two moments, which begin as equals and are changed in place."""

    def __init__(self) -> None:
        self.first = self.second = None

    def fresh(self):
        return Moments()

    def __call__(self, current, updates, version, ledger):
        if self.first is None:
            self.first = torch.zeros_like(current.vector)
            self.second = torch.zeros_like(current.vector)
            return super().__call__(current, updates, version, ledger)
        after = super().__call__(current, updates, version, ledger)
        self.first.mul_(0.5).add_(after.vector)
        self.second.mul_(0.9).add_(after.vector**2)
        return after * (1 + float(self.first.sum()) * 1e-3)


def test_tensors_that_are_equal_and_two_are_two_again(tmp_path):
    def made():
        return toy_federation(RFS(), small_data(), aggregate=Moments())

    whole = story(made().run(4))
    for cut in range(1, 4):
        fed = made()
        keeper = RunKeeper.create(fed, tmp_path / str(cut))
        fed.begin(4)
        for _ in range(cut):
            fed.step()
        keeper.checkpoint(fed)
        keeper.close()
        again = made()
        RunKeeper.go_on(again, tmp_path / str(cut))
        assert story(again.resume())["model"] == whole["model"], cut
        again.close()


@pytest.mark.parametrize("when", ["at the next checkpoint", "when it is let go of"])
def test_old_pages_that_a_reader_kept_go_once_it_has_ended(tmp_path, monkeypatch, when):
    """Nobody has to wait for the end of the run."""
    monkeypatch.setattr(erasing, "PATIENCE", 0.05)
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    fed.begin(6, requests=erase(1, round=2))
    reader = sqlite3.connect(folder / "run.db")
    while not fed.history.served:
        if len(fed.history.rounds) == 1 and not reader.in_transaction:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM log").fetchall()
        fed.step()
    assert not emptied(keeper.db)
    assert (folder / "run.db-wal").stat().st_size > 0
    reader.close()
    if when == "at the next checkpoint":
        keeper.checkpoint(fed)
        assert (folder / "run.db-wal").stat().st_size == 0
        assert emptied(keeper.db)
        keeper.close()
    else:
        keeper.close()
        with Database.open(folder / "run.db", readonly=True) as db:
            assert emptied(db)


def test_a_ticket_says_served_once_the_disk_is_clean(tmp_path, monkeypatch):
    def full(*_):
        raise StoreError("no room")

    fed = build("rfs", "sync")
    RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(4)
    fed.step()
    ticket = fed.inbox.put(erase(1))
    with monkeypatch.context() as patch:
        patch.setattr(erasing, "scrub", full)
        with pytest.raises(StoreError, match="no room"):
            fed.step()
        assert [served.clients for served in fed.history.served] == [(1,)]
        assert ticket.state == "waiting"
    fed.step()
    assert ticket.state == "served"
    fed.close()
