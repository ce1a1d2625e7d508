"""Words to the process that runs a run: pause, go, stop. What they come to, in the order they were said."""

from __future__ import annotations

from collections.abc import Container, Iterable

from unknot.store.database import Database
from unknot.store.entries import read_plain
from unknot.store.noted import RESTING
from unknot.store.rows import SERVED, WAITING, Asked, is_count

WORDS = ("pause", "go", "stop")
PAUSED, PAUSING = "paused", "pausing"


def standing_of(db: Database) -> str:
    """Whether a run that is held is paused, or pausing: will be at its next step; nothing where neither."""
    begun = [entry.number for kind in ("resumed", RESTING) if (entry := db.last(kind)) is not None]
    return standing(db.asked(), heard_since(db, max(begun, default=0)))


def rests(db: Database) -> bool:
    """Whether a run that is held is paused, and no word waits that would change it (a pause would not)."""
    return standing_of(db) == PAUSED and not any(one.kind in ("go", "stop") for one in db.waiting())


def heard_since(db: Database, entry: int) -> set[int]:
    """The numbers of what was taken up after an entry of the log; a clock may go back, its numbers do not."""
    taken = (read_plain(one.body) for one in db.entries(entry, kind="taken"))
    return {told["request"] for told in taken if isinstance(told, dict) and is_count(told.get("request"))}


def standing(asked: Iterable[Asked], heard: Container[int]) -> str:
    """The same by the words themselves; of those that were taken up, the ones that this process `heard`."""
    words = [one for one in asked if one.kind in WORDS]
    served = [one.kind for one in words if one.state == SERVED and one.number in heard]
    if served[-1:] == ["pause"]:
        return PAUSED
    return PAUSING if [one.kind for one in words if one.state == WAITING][-1:] == ["pause"] else ""
