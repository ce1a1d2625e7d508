"""A run's database: the log of what happened, the inbox of what was asked, what is sealed for clients.

SQLite in a form in which a commit is on the disk when it returns, what is deleted is overwritten, and several
processes may read while one writes. A file that is not ours to the letter is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from unknot.core.errors import StoreError
from unknot.store import files
from unknot.store.connection import APPLICATION, BUSY, TABLES, VERSION, connect, examined, explained
from unknot.store.files import check_plain, point, told
from unknot.store.lock import Process
from unknot.store.rows import (
    HIGHEST,
    REFUSED,
    SERVED,
    START,
    TAKEN,
    WAITING,
    Asked,
    Entry,
    asked_of,
    entry_hash,
    entry_of,
    is_count,
)

KINDS = ("erase", "join", "pause", "stop", "go")
"""What may be asked for."""
_SOON = 1.0  # seconds that readers are waited for where it can be done without
_PAGE = 256  # entries that are read at a time
_BEGINNING = 80  # bytes of an entry that say what it is


class Database:
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
        part = path.with_name(files.part_name(path.name))
        with told("write", path):
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with _OPENING, explained(path):
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
        for suffix in ("", "-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if not suffix or os.path.lexists(beside):
                check_plain(beside)  # and no symbolic link
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
                "build the federation again for its folder (store=), or unknot resume, and go on with that"
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

    # The log.

    def append(self, entries: Sequence[tuple[str, bytes]]) -> int:
        """Add entries (kind and body) to the log in one transaction; the number of the last."""
        at = _now()
        with self.transaction():
            number, previous = self.head()
            rows = []
            for kind, body in entries:
                number += 1
                found = entry_hash(previous, number, kind, at, body)
                rows.append((number, kind, body, at, previous, found))
                previous = found
            self._many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
        return number

    def entries(
        self, after: int = 0, kind: str | tuple[str, ...] | None = None, begins: bytes = b""
    ) -> Iterator[Entry]:
        """The entries `after` that number, of a `kind`, or several, or all, in order, checked by their hash.

        Or those alone that have the bytes `begins` somewhere at the beginning of what they say.
        """
        values: list[object] = [after]
        which = ""
        if kind is not None:
            kinds = (kind,) if isinstance(kind, str) else kind
            which += f" AND kind IN ({', '.join('?' * len(kinds))})"
            values += kinds
        if begins:
            which += f" AND instr(substr(body, 1, {_BEGINNING}), ?)"
            values.append(begins)
        while True:
            rows = self._all(
                f"SELECT * FROM log WHERE number > ?{which} ORDER BY number LIMIT {_PAGE}", values
            )
            for row in rows:
                entry = entry_of(row, self.path)
                yield entry
                values[0] = entry.number
            if len(rows) < _PAGE:
                return

    def last(self, kind: str) -> Entry | None:
        """The last entry of that `kind`."""
        return next(iter(self.latest(kind, 1)), None)

    def latest(self, kind: str, count: int) -> list[Entry]:
        """The last `count` entries of that `kind`, in order."""
        rows = self._all(f"SELECT * FROM log WHERE kind = ? ORDER BY number DESC LIMIT {int(count)}", (kind,))
        return [entry_of(row, self.path) for row in reversed(rows)]

    def head(self) -> tuple[int, bytes]:
        """The number and the hash of the last entry; 0 and zeros where there is none.

        Who keeps them elsewhere finds out when entries are cut from the end.
        """
        rows = self._all("SELECT * FROM log ORDER BY number DESC LIMIT 1")
        if not rows:
            return 0, START
        entry = entry_of(rows[0], self.path)
        return entry.number, entry.hash

    def verify(self) -> None:
        """Go through the whole log: every entry must fit the one before it."""
        number, previous = 0, START
        for entry in self.entries(after=-HIGHEST):
            if entry.number != number + 1 or entry.previous != previous:
                raise StoreError(
                    f"{self.path}: entry {entry.number} of the log does not fit entry {number}: entries are "
                    "missing, or were changed; take the file from a backup"
                )
            number, previous = entry.number, entry.hash

    # The inbox.

    def ask(self, kind: str, body: bytes, by: str) -> int:
        """Leave a request, from any process; its number."""
        if kind not in KINDS:
            raise StoreError(f"{kind!r} cannot be asked for; these can: {', '.join(KINDS)}")
        with self.transaction():
            number = self._all("SELECT coalesce(max(number), 0) + 1 FROM inbox")[0][0]
            self._put(Asked(number, kind, body, by, _now()))
        self.bring_in()
        return int(number)

    def bring_in(self) -> None:
        """Bring what was asked into the file itself, unless within a transaction: it is its turn after that.

        Of a write-ahead log that is damaged, SQLite drops the end, and nobody could compute a request again.
        """
        if not self._inside:
            with suppress(StoreError):  # it is written; a full disk, or a reader, is no reason to say no
                self.truncate(_SOON)

    def asked(self) -> list[Asked]:
        """Every request, in order."""
        return self._asked("ORDER BY number")

    def waiting(self) -> list[Asked]:
        """The requests that nobody has taken yet, in order."""
        return self._asked("WHERE state = ? ORDER BY number", WAITING)

    def request(self, number: int) -> Asked:
        """The request of that number."""
        found = self._asked("WHERE number = ?", number)
        if not found:
            raise StoreError(f"{self.path}: there is no request {number}")
        return found[0]

    def take(self, number: int, step: int) -> None:
        """A request is taken at that `step`; to say so twice is no harm."""
        with self.transaction():
            asked = self.request(number)
            if asked.state == WAITING:
                self._put(replace(asked, step=step, taken_at=_now(), state=TAKEN))
            elif asked.step != step:
                raise StoreError(f"{self.path}: request {number} was taken at step {asked.step}, not {step}")

    def done(self, number: int, outcome: bytes, state: str) -> None:
        """A request that was taken is served or refused; said again after a crash, its first time stays."""
        if state not in (SERVED, REFUSED):
            raise StoreError(f"a request is served or refused, and not {state!r}")
        with self.transaction():
            asked = self.request(number)
            if asked.state == WAITING:
                raise StoreError(f"{self.path}: request {number} was not taken yet")
            self._put(replace(asked, outcome=outcome, state=state, done_at=asked.done_at or _now()))

    def hold(self, number: int, outcome: bytes) -> None:
        """What comes of a request that was taken is known, but it does not count as served yet."""
        with self.transaction():
            self._put(replace(self.request(number), outcome=outcome))

    def release(self, number: int) -> None:
        """A request of which the outcome was held counts as served; said again, its first time stays."""
        with self.transaction():
            for asked in self._asked("WHERE number = ? AND state = ?", number, TAKEN):
                self.done(number, asked.outcome, SERVED)

    def blank(self, outcomes: Mapping[int, bytes]) -> None:
        """Empty what these requests asked for; that they were stays, and so much of what came of them."""
        with self.transaction():
            for number, outcome in outcomes.items():
                self._put(replace(self.request(number), body=b"", outcome=outcome))

    def reword(self, number: int, body: bytes, outcome: bytes) -> None:
        """Put the same in other bytes: what a request says, and what came of it, sealed anew."""
        with self.transaction():
            self._put(replace(self.request(number), body=body, outcome=outcome))

    # The clients.

    def name_clients(self, names: Mapping[int, bytes]) -> None:
        """Keep the sealed names of clients."""
        with self.transaction():
            self._many("INSERT OR REPLACE INTO clients VALUES (?, ?)", list(names.items()))

    def client_names(self) -> dict[int, bytes]:
        """The sealed names of clients, by number."""
        found = dict(self._all("SELECT number, name FROM clients ORDER BY number"))
        for number, name in found.items():
            if not isinstance(number, int) or not isinstance(name, bytes):
                raise StoreError(
                    f"{self.path}: the name of client {number} is damaged: take it from a backup"
                )
        return found

    def drop_clients(self, numbers: Collection[int]) -> None:
        """Delete the names of these clients, and all that is sealed for them."""
        with self.transaction():
            self._many("DELETE FROM clients WHERE number = ?", [(number,) for number in numbers])
            self._many("DELETE FROM sealed WHERE client = ?", [(number,) for number in numbers])

    def keep_sealed(self, kind: str, parts: Mapping[int, tuple[int, bytes]]) -> None:
        """Keep sealed parts of a kind, by number, with whose they are: see `sealed.py`."""
        with self.transaction():
            rows = [(kind, number, *part) for number, part in parts.items()]
            self._many("INSERT OR REPLACE INTO sealed VALUES (?, ?, ?, ?)", rows)

    def drop_sealed(self, kind: str, numbers: Collection[int]) -> None:
        """Delete these parts of a kind."""
        with self.transaction():
            self._many("DELETE FROM sealed WHERE kind = ? AND number = ?", [(kind, n) for n in numbers])

    def sealed(self, kind: str) -> dict[int, tuple[int, bytes]]:
        """What `keep_sealed` has kept of a kind."""
        found = self._all(
            "SELECT number, client, content FROM sealed WHERE kind = ? ORDER BY number", (kind,)
        )
        for number, client, content in found:
            if not is_count(number) or not is_count(client) or not isinstance(content, bytes):
                raise StoreError(
                    f"{self.path}: what is sealed there ({kind}) is damaged: take it from a backup"
                )
        return {number: (client, content) for number, client, content in found}

    def _asked(self, which: str, *values: object) -> list[Asked]:
        return [asked_of(row, self.path) for row in self._all(f"SELECT * FROM inbox {which}", values)]

    def _put(self, asked: Asked) -> None:
        row = [*astuple(asked), asked.check()]
        self._many("INSERT OR REPLACE INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [row])

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


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()
_OPENING = threading.RLock()  # while a connection is made, which nobody else knows of yet
_forking = threading.local()


def _close_inherited(path: Path) -> None:
    """Before a forked process opens a file itself, it closes the copy of its parent's connection.

    SQLite remembers which locks a process has on a file: a child would believe that it has its parent's.
    """
    for one in [db for db in _OPEN if db.path == path and not db._process.here and not db._closed]:
        if one._inside:
            raise StoreError(
                f"{path} was being written when this process was forked, and cannot be opened in it: start "
                'the process anew (multiprocessing: "spawn")'
            )
        one.close()


def _before_fork() -> None:
    """Have no thread within SQLite: what it locks in memory then, nobody would unlock in the child."""
    _forking.held = []
    _take(db._turn for db in list(_OPEN))
    _take([_OPENING])  # not sooner: a connection may be made in a turn
    _take(db._turn for db in list(_OPEN))  # those that were made meanwhile


def _take(turns: Iterable[threading.RLock]) -> None:
    _forking.held += [turn for turn in turns if turn.acquire(timeout=2 * BUSY)]


def _after_fork() -> None:
    for turn in reversed(_forking.held):
        turn.release()
    _forking.held = []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
