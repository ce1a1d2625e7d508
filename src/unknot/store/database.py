"""A run's database: the log of what happened, the inbox of what was asked, what is sealed for clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import UTC, datetime

from unknot.core.errors import StoreError
from unknot.store.access import Access
from unknot.store.rows import (
    HIGHEST,
    REFUSED,
    REQUESTS,
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
_BEGINNING = 256  # bytes of an entry that say what it is


class Database(Access):
    """What the file says, by its tables. See `create` and `open`."""

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

    def unserved(self) -> list[Asked]:
        """The requests that are neither served nor refused, in order; words to a process are none."""
        found = self._asked("WHERE state IN (?, ?) ORDER BY number", WAITING, TAKEN)
        return [one for one in found if one.kind in REQUESTS]

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

    def retake(self, number: int, step: int) -> None:
        """A request that was taken at a step which was lost is taken at another."""
        with self.transaction():
            self._put(replace(self.request(number), step=step))

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
