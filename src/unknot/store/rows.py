"""The rows of a run's database as values, each checked when it is read: its types, its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from unknot.core.errors import StoreError

START = bytes(32)
"""What the first entry of the log has for the hash of the one before it."""

HIGHEST = 2**63
"""Beyond what SQLite, or anything of ours, counts to."""
WAITING, TAKEN, SERVED, REFUSED = "waiting", "taken", "served", "refused"
REQUESTS = ("erase", "join")
"""What may be asked for; whatever else is in the inbox is a word to the process that runs the run."""
_STATES = (WAITING, TAKEN, SERVED, REFUSED)


@dataclass(frozen=True)
class Entry:
    """An entry of the log: its `hash` is over all else, `previous` that of the one before it."""

    number: int
    kind: str
    body: bytes
    at: str
    previous: bytes
    hash: bytes


@dataclass(frozen=True)
class Asked:
    """A request from outside, and what became of it: taken at a `step`, then served or refused."""

    number: int
    kind: str
    body: bytes
    by: str
    asked_at: str
    step: int | None = None
    taken_at: str | None = None
    done_at: str | None = None
    state: str = WAITING
    outcome: bytes = b""

    def check(self) -> bytes:
        """A hash over all that the row says."""
        fields = (self.number, self.kind, self.body, self.by, self.asked_at, self.step)
        return hashed(*fields, self.taken_at, self.done_at, self.state, self.outcome)


def is_count(value: object) -> TypeGuard[int]:
    """Whether something that was read is a number of things, as a run counts them."""
    return type(value) is int and 0 <= value < HIGHEST


def hashed(*fields: int | str | bytes | None) -> bytes:
    """The sha256 of fields; each says its kind and its length, so that no two rows are the same bytes."""
    found = hashlib.sha256()
    for field in fields:
        kind = type(field).__name__[0].encode()
        content = field if isinstance(field, bytes) else b"" if field is None else str(field).encode()
        found.update(kind + len(content).to_bytes(8, "big") + content)
    return found.digest()


def entry_hash(previous: bytes, number: int, kind: str, at: str, body: bytes) -> bytes:
    """What the hash of an entry is to be."""
    return hashed(previous, number, kind, at, body)


def entry_of(row: Sequence[object], where: object) -> Entry:
    """The entry in a `row` of the log of the file `where`."""
    number, kind, body, at, previous, found = row
    if (
        isinstance(number, int)
        and isinstance(kind, str)
        and isinstance(body, bytes)
        and isinstance(at, str)
        and isinstance(previous, bytes)
        and isinstance(found, bytes)
        and len(previous) == len(START)
        and entry_hash(previous, number, kind, at, body) == found
    ):
        return Entry(number, kind, body, at, previous, found)
    raise StoreError(
        f"{where}: entry {number} of the log is damaged, or was changed: take the file from a backup"
    )


def asked_of(row: Sequence[object], where: object) -> Asked:
    """The request in a `row` of the inbox of the file `where`."""
    number, kind, body, by, asked_at, step, taken_at, done_at, state, outcome, check = row
    if (
        isinstance(number, int)
        and isinstance(kind, str)
        and isinstance(body, bytes)
        and isinstance(by, str)
        and isinstance(asked_at, str)
        and isinstance(step, int | None)
        and isinstance(taken_at, str | None)
        and isinstance(done_at, str | None)
        and isinstance(state, str)
        and state in _STATES
        and isinstance(outcome, bytes)
    ):
        found = Asked(number, kind, body, by, asked_at, step, taken_at, done_at, state, outcome)
        if found.check() == check:
            return found
    raise StoreError(f"{where}: request {number} is damaged, or was changed: take the file from a backup")
