"""Access to the file of a run's database: threads take turns at it, and no process that is forked has it.

SQLite in a form in which a commit is on the disk when it returns, what is deleted is overwritten, and several
processes may read while one writes. A file that is not ours to the letter is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from unknot.core.errors import StoreError
from unknot.store import files
from unknot.store.connection import APPLICATION, BUSY, TABLES, VERSION, connect, examined, explained, mark_in
from unknot.store.files import check_plain, point, told
from unknot.store.lock import Process


class Access:
    """One connection to the file `path`; threads take turns at it. See `create` and `open`.

    It is for the process that opened it: one that is forked from it is refused, as SQLite demands.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, readonly: bool) -> None:
        self.path = path
        self._process = Process()
        self.readonly = readonly
        self._connection = connection
        self._turn = threading.RLock()  # a transaction is one turn
        self._inside = self._closed = False
        self._version = -1
        self.guard: Callable[[], None] | None = None
        """Raises where the file is not this process's any more: asked before whatever is done here."""
        _OPEN.add(self)

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Make a new one and open it; there must be none yet. It is whole when it has its name."""
        path = Path(path).absolute()
        if os.path.lexists(path):
            raise StoreError(f"{path} is there already: name another folder, or go on with that run")
        part = files.begin(path)
        with told("write", path), _OPENING, explained(path):
            connection = connect(part, "rw")
            try:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
                for table in TABLES.values():
                    connection.execute(table)
                # Last: what is left in a write-ahead log, on a full disk, would not get the new name.
                connection.execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()
        point("db:created")
        files.put_in_place(part, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, readonly: bool = False) -> Self:
        """Open one that is there; for writing, its pages are looked through first."""
        path = Path(path).absolute()
        _close_inherited(path)
        check_files(path, readonly)
        if os.path.lexists(path.with_name(path.name + "-journal")):
            raise StoreError(
                f"{path}-journal is none of ours, and would be played back into {path}: remove it"
            )
        with _OPENING, explained(path):
            return cls(path, examined(path, readonly), readonly)

    def close(self) -> None:
        """Close the connection; in a forked process its copy, unless its parent was writing just then."""
        if not self._process.here:
            self._closed = True
            if not self._inside:
                self._connection.close()
            return
        with self._turn, explained(self.path):
            self._closed = True
            self._connection.close()

    def check(self) -> None:
        """Raise unless this process may read and write here."""
        if self._closed:
            raise StoreError(
                f"{self.path}: the run was let go of (close), and nothing is written or read there any more: "
                "build the federation again for its folder (store=), and go on with that (a run of the "
                "command line: unknot resume)"
            )
        self._process.check(self.path)
        if self.guard is not None:
            self.guard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within is one commit; a transaction within another is part of that."""
        self.check()  # before the turn: whoever had it at a fork is not there to give it back
        with self._turn:
            if self._inside:
                yield
                return
            point("db:begin")
            try:
                self._inside = True  # first: an interrupt may come at any moment
                self._run("BEGIN IMMEDIATE")
                yield
                point("db:commit")
                self._run("COMMIT")
            except BaseException:
                if not self._closed and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._inside = False
        point("db:committed")

    def truncate(self, within: float = 0.0) -> bool:
        """Bring all into the file itself and empty the write-ahead log.

        False where, `within` so many seconds, a reader's old view stood in the way.
        """
        self.check()
        point("db:truncate")
        with self._turn:
            self._run(f"PRAGMA busy_timeout = {int(1000 * within)}")
            try:
                busy = self._all("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
            finally:
                self._run(f"PRAGMA busy_timeout = {int(1000 * BUSY)}")
        point("db:truncated")
        return not busy

    def changed(self) -> bool:
        """Whether another connection may have written since this was last asked; at first, it may."""
        found = int(self._all("PRAGMA data_version")[0][0])
        changed, self._version = found != self._version, found
        return changed

    def _run(self, statement: str) -> None:
        with self._connected() as connection:
            connection.execute(statement).close()

    def _many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self._connected() as connection:
            connection.executemany(statement, rows)

    def _all(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """All rows at once: no view of the file is held open between calls."""
        with self._connected() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self.check()
        with self._turn, explained(self.path):
            self.check()  # it may have been closed meanwhile
            yield self._connection


def check_files(path: Path, readonly: bool = False) -> None:
    """Raise unless SQLite's files there are plain ones, and what it would write has one name alone.

    Who only reads writes beside the file all the same, where that may be done: which part is being read.
    """
    for suffix in ("", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if suffix and not os.path.lexists(beside):
            continue
        written = not readonly or (suffix == "-shm" and os.access(beside, os.W_OK))
        try:
            check_plain(beside, alone=written)
        except StoreError:
            if not suffix or os.path.lexists(beside):
                raise  # else SQLite has just taken it away, with the last who had it open


def application_of(path: Path) -> int | None:
    """Which program made a database; None where it is none, or damaged. Nothing is made beside it."""
    path = path.absolute()
    _close_inherited(path)
    with _OPENING, explained(path):
        return mark_in(path)


_OPEN: weakref.WeakSet[Access] = weakref.WeakSet()
_OPENING = threading.RLock()  # while a connection is made, which nobody else knows of yet
_forking = threading.local()


def _open() -> list[Access]:
    """All that are open now; another thread may be opening one."""
    while True:
        try:
            return list(_OPEN)
        except RuntimeError:  # one came while they were counted
            continue


def _close_inherited(path: Path) -> None:
    """Before a forked process opens a file itself, it closes the copy of its parent's connection.

    SQLite remembers which locks a process has on a file: a child would believe that it has its parent's.
    """
    for one in [db for db in _open() if db.path == path and not db._process.here and not db._closed]:
        if one._inside:
            raise StoreError(
                f"{path} was being written when this process was forked, and cannot be opened in it: start "
                'the process anew (multiprocessing: "spawn")'
            )
        one.close()


def _before_fork() -> None:
    """Have no thread within SQLite: what it locks in memory then, nobody would unlock in the child."""
    _forking.held = []
    _take(db._turn for db in _open())
    _take([_OPENING])  # not sooner: a connection may be made in a turn
    _take(db._turn for db in _open())  # those that were made meanwhile


def _take(turns: Iterable[threading.RLock]) -> None:
    _forking.held += [turn for turn in turns if turn.acquire(timeout=2 * BUSY)]


def _after_fork() -> None:
    for turn in reversed(_forking.held):
        turn.release()
    _forking.held = []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
