"""Entries of the log: plain data in a written form, and what of it is read back, checked."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unknot.core.errors import StoreError
from unknot.core.form import Unreadable, pack, plain_data, read
from unknot.core.ids import MOST_CLIENTS
from unknot.core.jobs import Score
from unknot.federation.events import Event, Round, Served
from unknot.store.checkpoint import Named
from unknot.store.rows import REFUSED, Asked, Entry, is_count

if TYPE_CHECKING:
    from unknot.store.database import Database

_BITS = 4096  # of a number in the log: Python shows no longer ones


@plain_data
@dataclass(frozen=True)
class At:
    """When a request was served, by the run's own count: all that is left of what came of it."""

    round: int
    time: float
    """In simulated seconds."""
    order: int | None = None
    """How many requests had been served before it; None where the log does not have it."""


def plain(value: object) -> bytes:
    """Plain data as an entry of the log."""
    return pack(value)


def read_plain(content: bytes) -> Any:
    try:
        found = read(content)
    except Unreadable as error:
        raise StoreError(f"an entry of the log cannot be read: {error}") from None
    _check_numbers(found)
    return found


def read_begun(content: bytes) -> dict[str, Any]:
    found = read_plain(content)
    if not isinstance(found, dict):
        raise StoreError("the log does not say how the run was begun: it was changed")
    clients = found.get("clients", 0)
    if not is_count(clients) or clients > MOST_CLIENTS:
        raise StoreError("the log does not say how many clients the run was begun with: it was changed")
    return found


def read_named(content: bytes) -> Named:
    named = read_plain(content)
    if not isinstance(named, Named):
        raise StoreError("an entry of the log is no checkpoint: it was changed")
    return named


def read_event(content: bytes) -> Event | None:
    """An event of the log: a round, or a request that was served. None where it cannot be read here."""
    try:
        event = read(content)
    except (Unreadable, ValueError):
        return None
    if (
        not isinstance(event, Round | Served)
        or not is_count(event.round)
        or not isinstance(event.time, float)
    ):
        return None
    scores, told = (event.scores, event.lane) if isinstance(event, Round) else ({}, event.request)
    known = isinstance(scores, dict) and all(map(_is_score, scores.values()))
    return event if known and type(told) is str else None


def read_at(outcome: bytes) -> At | None:
    """When a request was served, also where that is all that is left; None where it cannot be read."""
    try:
        found = read(outcome) if outcome else None
    except (Unreadable, ValueError):
        return None
    if isinstance(found, Served):
        found = At(found.round, found.time)
    if not isinstance(found, At) or not is_count(found.round) or not isinstance(found.time, float):
        return None
    return found if found.order is None or is_count(found.order) else None


def named_in(db: Database, states: Collection[str]) -> list[Named]:
    """The checkpoints of these digests that the log names, the last first; none from before an erasure."""
    erased = db.last("scrubbing")
    after = 0 if erased is None else erased.number
    begins = [state[:8].encode() for state in states]  # an entry's beginning has no more of it
    found = {e.number: e for one in begins for e in db.entries(after, kind="checkpoint", begins=one)}
    named = [read_named(found[number].body) for number in sorted(found, reverse=True)]
    return [one for one in named if one.state in states]


@dataclass(frozen=True)
class Resumed:
    """The log's entry of a run that was gone on with: from where, and what is still to be taken again."""

    number: int
    until: int
    """The step that the run had come to: what is new is not taken up before it."""
    checkpoint: int
    """The number of the entry of the checkpoint that it stands at."""
    over: bool
    """Whether the run was over there."""


def resumed_in(entry: Entry) -> Resumed:
    told = read_begun(entry.body)
    until, checkpoint = told.get("until"), told.get("checkpoint")
    if not is_count(until) or not is_count(checkpoint) or checkpoint >= entry.number:
        raise StoreError("the log does not say where the run was gone on with: it was changed")
    return Resumed(entry.number, until, checkpoint, told.get("over") is not False)


def until_in(db: Database, after: int) -> int:
    """The furthest step that a run has come to since that entry, as far as its course is still to be taken.

    A checkpoint may be damaged, and the steps up to it be lost: they are taken again, whatever is kept on
    the way.
    """
    until = 0
    for entry in db.entries(after, kind=("checkpoint", "resumed")):
        if entry.kind == "checkpoint":
            until = max(until, read_named(entry.body).step)
        else:
            until = resumed_in(entry).until
    return until


def events_in(db: Database, upto: int | None = None) -> list[Entry]:
    """The events of a run, those of steps that were lost left out: they are there again, from later on.

    Or those that the checkpoint knows whose entry has the number `upto`.
    """
    counts = _course(db, upto)
    return [entry for entry in db.entries(kind="event") if counts(entry.number)]


def served_in(db: Database) -> list[tuple[Served, Entry]]:
    """The requests that were served, in order; the rounds between them are many, and not read."""
    counts = _course(db)
    return [pair for pair in _served(db) if counts(pair[1].number)]


def _course(db: Database, upto: int | None = None) -> Callable[[int], bool]:
    """Whether an entry, by its number, is of the course that a run has taken in the end, or `upto` one.

    A run that is gone on with stands at a checkpoint: what the log has between the two is of no account.
    """
    resumed = [resumed_in(entry) for entry in db.entries(kind="resumed")]
    end = math.inf if upto is None else upto
    parts: list[tuple[int, float]] = []  # after the one, up to the other
    for told in reversed(resumed):
        if told.number < end:
            parts.append((told.number, end))
            end = told.checkpoint
    parts = [(0, end), *reversed(parts)]
    begins = [begin for begin, _ in parts]

    def counts(number: int) -> bool:
        return number <= parts[bisect_left(begins, number) - 1][1]

    return counts


def _served(db: Database) -> list[tuple[Served, Entry]]:
    """The same with what counts no more."""
    entries = db.entries(kind="event", begins=b"Served")
    return [(event, entry) for entry in entries if isinstance(event := read_event(entry.body), Served)]


def orders_of(asked: Iterable[Asked], served: Iterable[tuple[Served, Entry]]) -> dict[int, int]:
    """The place of each request from outside among all that were `served`, by its number.

    By what came of it, to the byte; of one that was emptied, by the place that it keeps.
    """
    done = [one for one in asked if one.outcome and one.state != REFUSED]
    kept = {one.number: at.order for one in done if (at := read_at(one.outcome)) and at.order is not None}
    taken = set(kept.values())
    free: dict[bytes, list[int]] = {}
    for order, (_, entry) in enumerate(served):
        if order not in taken:
            free.setdefault(entry.body, []).append(order)
    for one in done:
        if one.number not in kept and free.get(one.outcome):
            kept[one.number] = free[one.outcome].pop(0)
    return kept


def _is_score(found: object) -> bool:
    if not isinstance(found, Score) or not isinstance(found.metrics, Mapping) or not found.metrics:
        return False
    return all(
        type(name) is str and (isinstance(value, float) or is_count(value))
        for name, value in found.metrics.items()
    )


def _check_numbers(found: object) -> None:
    """No number in the log is so long that it could not be shown."""
    if isinstance(found, int) and found.bit_length() > _BITS:
        raise StoreError("an entry of the log has a number that no run counts to: it was changed")
    if isinstance(found, Mapping):
        for pair in found.items():
            _check_numbers(pair)
    elif isinstance(found, list | tuple | set | frozenset):
        for one in found:
            _check_numbers(one)
