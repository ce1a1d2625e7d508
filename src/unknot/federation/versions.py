"""Going back in a lane: the models from which clients were first sent out, for when one of them is erased.

Until a client is first sent a model, a lane is what it would be without it, at any pace: draws have names,
so that who is not drawn takes nobody's place, and nobody waits for it. So such a version depends on nothing
of the client's: neither on its data, nor on how much of it there is, nor on how long it takes. (The moment of
its first update would come later, but the wait for it has shaped an asynchronous lane by then.)
"""

from __future__ import annotations

from collections.abc import Iterable

from unknot.federation.desk import Desk
from unknot.federation.lanes import Lane

FIRST = "first"
"""The note of a lane: the version from which each client was first sent out."""


def keep_version(desk: Desk, lane: Lane, clients: Iterable[int]) -> None:
    """Keep a lane's model if it is about to be sent to somebody for the first time, if only for a meeting.

    What the selector knows has shaped the lane's course: who is in there is in what is kept. Beside the model
    is its aggregator, which has seen what the model has: one with a state goes back with it.
    """
    first = lane.notes.setdefault(FIRST, {})
    if new := set(clients) - first.keys():
        first.update(dict.fromkeys(new, lane.version))
        if lane.version:
            kept = lane.model.carrying(lane.lineage)
            desk.archive.put((_kind(lane), lane.version), kept, beside=lane.main.aggregate)


def go_back(desk: Desk, lane: Lane, erased: Iterable[int]) -> None:
    """Go back to the last version that was kept before any of these clients was first sent a model.

    An erasure has purged what carries their data: where there is nothing left, to the initial weights.
    """
    first: dict[int, int] = lane.notes.get(FIRST, {})
    bound = min((first.get(c, lane.version) for c in erased if c in lane.sent), default=lane.version)
    version = max((v for v in _kept(desk, lane) if v <= bound), default=0)
    start = desk.archive[_kind(lane), version] if version else desk.initial
    lane.notes[FIRST] = {client: v for client, v in first.items() if v < version}
    lane.sent &= lane.notes[FIRST].keys()
    desk.rewind(lane, version, {"global": start})
    if version:
        lane.main.aggregate = desk.archive.beside((_kind(lane), version))
    for later in [v for v in _kept(desk, lane) if v > version]:
        del desk.archive[_kind(lane), later]


def forget_versions(desk: Desk, lane: Lane) -> None:
    """Keep no version of a lane any longer."""
    lane.notes.pop(FIRST, None)
    desk.archive.drop(_kind(lane))


def _kind(lane: Lane) -> str:
    return f"version of {lane.name}"


def _kept(desk: Desk, lane: Lane) -> list[int]:
    names = (name for name in desk.archive if isinstance(name, tuple))
    return [version for kind, version, *_ in names if kind == _kind(lane)]
