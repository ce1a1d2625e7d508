"""Looking on while a run goes on: all of it at first, then what is new since the look before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unknot.core.requests import numbered
from unknot.federation.events import Event, Round, Served
from unknot.store.database import Database
from unknot.store.entries import events_in, read_event, read_named, served_in
from unknot.store.lock import Holder, holder
from unknot.store.look import FINISHED, RUNNING, STOPPED, Look, look
from unknot.store.naming import shown_names
from unknot.store.noted import database
from unknot.store.rows import Asked, Entry

FEW = 5
"""So many of the events before the first look are shown."""


class Watching:
    """Who looks on at the run in a folder; a long log is gone through once, not at each look."""

    def __init__(self, folder: str | Path, keys: str | Path | None = None) -> None:
        self._folder, self._keys = folder, keys
        self._found: Look | None = None
        self._number = self._served = 0
        self._asked: list[Asked] = []
        self._names: dict[int, str] = {}

    def look(self) -> tuple[Look, list[Event], int]:
        """Where the run stands, and the events since the look before; at first, the last few.

        With how many requests had been served before these events. Of a run that ends meanwhile, they are
        all that it leaves.
        """
        found, events, before = self._look()
        while found.state != RUNNING and self._behind():
            found, more, _ = self._look()
            events += more
        return found, events, before

    def told(self, served: Served) -> str:
        """A request in words; who is there has a name."""
        return served.told(lambda client: self._names.get(client, numbered(client)))

    def _behind(self) -> bool:
        """Whether the log has more by now than was gone through."""
        with Database.open(database(self._folder), readonly=True) as db:
            return db.head()[0] > self._number

    def _look(self) -> tuple[Look, list[Event], int]:
        held = holder(self._folder)
        with Database.open(database(self._folder), readonly=True) as db:
            number, asked = db.head()[0], db.asked()
            if self._found is None:
                served = [entry for _, entry in served_in(db)]
                few = {entry.number: entry for entry in (*served, *events_in(db)[-FEW:])}
                new = [entry for entry in few.values() if entry.number <= number]
            else:
                new = [entry for entry in db.entries(self._number) if entry.number <= number]
            events = [e for one in new if one.kind == "event" and (e := read_event(one.body)) is not None]
            events = self._in_order(db, events, number)
            self._served += _requests(events)
            events = events[-FEW:] if self._found is None else events
        plain = all(entry.kind in ("event", "checkpoint") for entry in new) and all(
            isinstance(event, Round) for event in events
        )
        if self._found is None or not plain or asked != self._asked or held != self._found.holder:
            self._found = look(self._folder, self._keys)
        else:
            self._found = _moved(self._found, held, [e for e in new if e.kind == "checkpoint"][-1:])
        self._number, self._asked = number, asked
        return self._found, events, self._served - _requests(events)

    def _in_order(self, db: Database, events: list[Event], number: int) -> list[Event]:
        """As they happened: with a checkpoint, requests are logged before rounds.

        They are those up to the entry of this `number`: the run may have kept more meanwhile.
        """
        served = [event for event in events if isinstance(event, Served)]
        kept = [entry for entry in db.latest("checkpoint", FEW) if entry.number <= number]
        if not served or not kept:
            return events
        self._names = shown_names(db, self._folder, self._keys)
        rounds = [event for event in events if isinstance(event, Round)]
        before = read_named(kept[-1].body).rounds - len(rounds)
        found: list[tuple[tuple[int, bool], Event]]
        found = [((before + place, True), event) for place, event in enumerate(rounds)]
        found += [((event.place, False), event) for event in served]
        return [event for _, event in sorted(found, key=lambda pair: pair[0])]


def _requests(events: list[Event]) -> int:
    return sum(isinstance(event, Served) for event in events)


def _moved(found: Look, held: Holder | None, checkpoint: list[Entry]) -> Look:
    """The same run after another checkpoint, if there is one, and nothing but rounds.

    What it would serve by now is not looked for: that stands in the checkpoint itself, which may be long.
    """
    for entry in checkpoint:
        named = read_named(entry.body)
        state = RUNNING if held else FINISHED if named.stopped else STOPPED
        found = replace(
            found,
            rounds=named.rounds,
            time=named.time,
            kept=entry.at,
            stopped=named.stopped,
            state=state,
            model=None,
            lineage=None,
            model_unknown="it was not looked for",
        )
    return found
