"""Words to the process that runs a run: pause, go, stop. What they come to, in the order they were said."""

from __future__ import annotations

from collections.abc import Iterable

from unknot.store.database import Database
from unknot.store.rows import SERVED, WAITING, Asked

WORDS = ("pause", "go", "stop")
PAUSED, PAUSING = "paused", "pausing"


def standing_of(db: Database) -> str:
    """Whether a run that is held is paused, or pausing: will be at its next step; nothing where neither."""
    begun = [entry.at for kind in ("resumed", "stopped") if (entry := db.last(kind)) is not None]
    return standing(db.asked(), max(begun, default=""))


def standing(asked: Iterable[Asked], since: str) -> str:
    """The same by the words themselves; those that were said to a process before `since` count no more."""
    words = [one for one in asked if one.kind in WORDS]
    heard = [one.kind for one in words if one.state == SERVED and (one.done_at or "") > since]
    if heard[-1:] == ["pause"]:
        return PAUSED
    return PAUSING if [one.kind for one in words if one.state == WAITING][-1:] == ["pause"] else ""
