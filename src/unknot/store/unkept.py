"""What a run has done since its last checkpoint, and its folder does not have yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unknot.core.form import pack
from unknot.federation.events import Event, Served
from unknot.store import sealed
from unknot.store.checkpoint import mark_of, server_marks
from unknot.store.database import Database
from unknot.store.keyring import Keyring
from unknot.store.restoring import Restored
from unknot.store.sealed import IDS, MARKS

if TYPE_CHECKING:
    from unknot.federation import Federation


class Unkept:
    """What is noted of a federation until the log has it; then `clear`."""

    def __init__(self) -> None:
        self.erased: list[Served] = []
        """The erasures that have not reached the disk."""
        self.done: list[tuple[int, Served]] = []
        """What came of requests from outside, by their numbers."""
        self.server: dict[str, bytes] = {}
        """A digest of each part of the server's data, as it is: see `server_marks`."""
        self._left = 0  # how many clients had been erased when that was noted
        self._less: dict[int, int] = {}  # how many samples clients had lost when they were marked
        self._parts: dict[tuple[int, bytes], int] = {}  # private ones that the last checkpoint has, by number
        self._highest = 0  # of those numbers, ever
        self._sealed: dict[str, dict[int, tuple[int, bytes]]] = {MARKS: {}, IDS: {}}
        self._events: list[bytes] = []
        self._rounds = self._served = 0  # how many the log has, with those

    def begin(self, fed: Federation) -> None:
        """The federation has not been kept before."""
        self.server, self._left = server_marks(fed.data), len(fed.data.erased)

    def go_on(self, fed: Federation, restored: Restored) -> None:
        """The federation is what its folder says."""
        self.server, self._left = dict(restored.kept.server), len(fed.data.erased)
        self._less = {client: len(ids) for client, ids in fed.data.reduced.items()}
        self._parts, self._highest = dict(restored.private.numbers), restored.private.highest
        self._rounds, self._served = restored.named.rounds, restored.named.served

    @property
    def events(self) -> list[tuple[str, bytes]]:
        """What happened, as entries for the log."""
        return [("event", body) for body in self._events]

    def note(self, fed: Federation) -> None:
        """What has happened that the log does not have, and what clients hold less than they did."""
        history = fed.history
        assert history is not None
        new: list[Event] = [*history.served[self._served :], *history.rounds[self._rounds :]]
        self._events += [pack(event) for event in new]
        self._served = max(self._served, len(history.served))
        self._rounds = max(self._rounds, len(history.rounds))
        if len(fed.data.erased) != self._left:
            history.leave_out(fed.data.erased)
            # What is held out may have been a client's own.
            self.server, self._left = server_marks(fed.data), len(fed.data.erased)
            self._sealed = {
                kind: {n: part for n, part in parts.items() if part[0] not in fed.data.erased}
                for kind, parts in self._sealed.items()
            }
        for client, ids in fed.data.reduced.items():
            if client in fed.data and self._less.get(client) != len(ids):
                self._sealed[MARKS][client] = (client, mark_of(fed.data, client))
                self._less[client] = len(ids)

    def note_private(self, parts: Mapping[int, bytes]) -> tuple[int, ...]:
        """The numbers under which lies what is one client's alone; a part that is as it was keeps its own."""
        before, self._parts = self._parts, {}
        for part in parts.items():
            if (number := before.get(part)) is None:
                self._highest = number = self._highest + 1
                self._sealed[IDS][number] = part
            self._parts[part] = number
        return tuple(self._parts.values())

    def seal(self, db: Database, keyring: Keyring) -> None:
        """Keep what is one client's alone, under its key."""
        for kind, parts in self._sealed.items():
            sealed.keep(db, keyring, kind, parts)

    def clear(self) -> None:
        """The log has all of it."""
        self._events, self.erased, self.done = [], [], []
        self._sealed = {MARKS: {}, IDS: {}}
