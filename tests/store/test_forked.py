"""One process at a time: a forked one has the run in its memory, and must not write it."""

import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from kept_runs import ROUNDS, build, story

from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring, Vault, access
from unknot.store.entries import plain
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.lock import holder
from unknot.store.noted import DATABASE, KEYS

pytestmark = pytest.mark.usefixtures("in_time")

SECONDS = 60


def said_in_a_child(work: Callable[[], object]) -> str:
    """What `work` says in a forked process: its result, or its refusal."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            found = f"done: {work()}"
        except StoreError as error:
            found = f"refused: {error}"
        except BaseException as error:
            found = f"failed: {error!r}"
        os.write(write, found.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as told:
        text = told.read().decode()
    os.waitpid(child, 0)
    return text


def content(folder: Path) -> dict[str, bytes]:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.endswith("-shm")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def held(tmp_path):
    fed = build()
    RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1)
    yield fed
    fed.close()


WRITES = {
    "run": lambda fed: fed.run(2),
    "checkpoint": lambda fed: keeper_of(fed).checkpoint(fed),
    "asked": lambda fed: keeper_of(fed).waiting(),
    "log": lambda fed: keeper_of(fed).db.append([("event", b"")]),
    "truncate": lambda fed: keeper_of(fed).db.truncate(),
    "put": lambda fed: fed.inbox.put(erase(1)),
    "vault put": lambda fed: keeper_of(fed).vault.put({}),
    "vault retain": lambda fed: keeper_of(fed).vault.retain(()),
    "vault reseal": lambda fed: keeper_of(fed).vault.reseal((1,)),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_forked_process_is_refused_before_anything_is_written(held, what):
    before = content(keeper_of(held).folder)
    said = said_in_a_child(lambda: WRITES[what](held))
    assert said.startswith("refused: ")
    assert f"held by process {os.getpid()}" in said
    assert "unknot.simulate(..., store=...)" in said
    assert content(keeper_of(held).folder) == before


def test_a_child_that_reads_data_closes_and_ends_does_no_harm(held):
    def reads() -> int:
        total = len(held.data) + sum(len(held.data[client].ids) for client in held.data.clients)
        held.close()
        return total

    other = build()
    other.run(1)
    assert said_in_a_child(reads).startswith("done: ")
    assert holder(keeper_of(held).folder) is not None
    assert story(held.run(ROUNDS)) == story(other.run(ROUNDS))
    keeper_of(held).db.verify()


def test_a_child_that_reads_data_while_a_transaction_goes_on_is_not_held_up(held):
    with keeper_of(held).db.transaction():
        keeper_of(held).db.append([("event", b"")])
        assert said_in_a_child(lambda: len(held.data)).startswith("done: ")
        refused = said_in_a_child(lambda: Database.open(keeper_of(held).folder / DATABASE))
    assert "was being written" in refused


def test_a_process_in_the_background_takes_the_run_itself_and_nobody_is_let_in_beside_it(tmp_path):
    folder, ready, asked = tmp_path / "run", tmp_path / "ready", tmp_path / "asked"

    def background() -> str:
        fed = build()
        RunKeeper.create(fed, folder, every=0.0)
        fed.begin(ROUNDS)
        fed.step()
        parent = os.getpid()
        child = os.fork()
        if child:
            os._exit(0)
        signal.alarm(SECONDS)
        while os.getppid() == parent:
            time.sleep(0.01)
        try:
            fed.step()
            return "not refused"
        except StoreError as error:
            refused = str(error)
        old, fed = fed, build()
        keeper = RunKeeper.go_on(fed, folder, every=0.0)
        assert keeper_of(old) is not keeper
        keeper.db.append([("left", plain({"file": b""}))])  # lies in the write-ahead log
        ready.touch()
        while not asked.exists():
            time.sleep(0.01)
        there = [one.number for one in keeper.db.asked()]
        history = fed.resume()
        keeper.db.verify()
        keeper.close()
        return f"{refused} | {there} | {len(history.rounds)}"

    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            found = background()
        except BaseException as error:
            found = f"failed: {error!r}"
        os.write(write, found.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    until = time.monotonic() + SECONDS
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert ready.exists()
    with pytest.raises(StoreError, match="is being run by process"):
        RunKeeper.go_on(build(), folder)
    with Database.open(folder / DATABASE) as db:  # its closing must not take the write-ahead log away
        number = leave(db, erase(1), Keyring(folder / KEYS))
    assert (folder / f"{DATABASE}-wal").exists()
    asked.touch()
    with open(read, "rb") as told:
        refused, there, rounds = told.read().decode().split(" | ")
    assert "held by process" in refused
    assert (there, rounds) == (str([number]), str(ROUNDS))
    fed = build()
    keeper = RunKeeper.go_on(fed, folder)
    assert not keeper.said
    assert [entry.kind for entry in keeper.db.entries(kind="left")] == ["left"]
    assert [one.state for one in keeper.db.asked()] == ["served"]
    keeper.close()


def test_what_is_opened_in_the_child_itself_is_its_own(tmp_path):
    ring = Keyring(tmp_path / "keys")
    assert said_in_a_child(lambda: Vault(tmp_path / "weights", ring).retain(())).startswith("done: ")


@pytest.mark.parametrize("forks", [8, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("busy", ["reading", "opening"])
def test_a_process_that_is_forked_while_a_thread_is_in_the_database_can_let_go_of_the_run(held, busy, forks):
    """SQLite's own locks are in memory: one that a thread had at the fork nobody would give back."""
    over, path = threading.Event(), keeper_of(held).folder / DATABASE

    def work() -> None:
        while not over.is_set():
            if busy == "reading":
                keeper_of(held).db.verify()
            else:
                Database.open(path, readonly=True).close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        ends = []
        for _ in range(forks):
            child = os.fork()
            if not child:
                signal.alarm(5)
                held.close()
                Database.open(path, readonly=True).close()
                os._exit(0)
            ends.append(os.waitpid(child, 0)[1])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not any(ends)


def test_a_database_that_is_opened_while_they_are_counted_is_no_error(tmp_path, monkeypatch):
    class Grows(weakref.WeakSet):
        left = 2

        def __iter__(self):
            if Grows.left:
                Grows.left -= 1
                raise RuntimeError("Set changed size during iteration")
            return super().__iter__()

    monkeypatch.setattr(access, "_OPEN", Grows())
    with Database.create(tmp_path / "run.db") as made:
        assert access._open() == [made]
    assert not Grows.left
