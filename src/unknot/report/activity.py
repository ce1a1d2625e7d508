"""What a run's lanes did over simulated time, as values: whose work, when, and how good each one was."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unknot.core.requests import some_of
from unknot.federation import History, Round, Served, Trip
from unknot.federation.clustered import JOINT
from unknot.federation.events import value_of

NOWHERE = "in none"  # profiled, or asked in joint rounds alone, and a member of no lane
Point = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A line of the timeline: a client in a lane. A client of two lanes has two."""

    lane: str
    client: int


@dataclass(frozen=True)
class Bar:
    """A trip in its row.

    `kind` is "lane", "joint", "apart", "visit" before an erasure, or "cut" where a request ended it.
    """

    row: int
    kind: str
    start: float
    end: float


@dataclass(frozen=True)
class Gone:
    """A row whose client was erased whole, from the request on."""

    row: int
    start: float
    end: float


@dataclass(frozen=True)
class Part:
    """Some samples of a row's client were erased, and it stays."""

    row: int
    time: float


def subject(history: History) -> str:
    """What is trained on what, ``mlp on digits``, as far as they have names."""
    parts = [history.setup.get(part, {}).get("name", "") for part in ("model", "data")]
    return " on ".join(filter(None, parts))


def called(history: History, client: int) -> str:
    """A client at its row: its name, or its number; among names, ``client 7``, for a 7 may be a name."""
    return history.label(client) if history.names else str(client)


def lanes(history: History) -> list[str]:
    """The lanes that train apart, cluster 10 after cluster 9; joint rounds are not one of them."""
    found = {record.lane for record in history.rounds} | {row.lane for row in _placed(history)}
    return sorted(found - {JOINT}, key=natural)


def rows(history: History) -> list[Row]:
    """By lane, then client, asked or not; last, those that were never in a lane."""
    placed = _placed(history)
    others = {trip.client for trip, _ in _trips(history)} - {row.client for row in placed}
    ordered = sorted(placed, key=lambda row: (natural(row.lane), row.client))
    return ordered + [Row(NOWHERE, client) for client in sorted(others)]


def bars(history: History, of: Sequence[Row]) -> list[Bar]:
    """One bar a trip. What belongs to no lane is in the client's first row."""
    place = {row: i for i, row in enumerate(of)}
    first = _first_rows(of)
    return [
        Bar(place.get(Row(trip.lane, trip.client), first[trip.client]), kind, trip.launched, trip.ended)
        for trip, kind in _trips(history)
    ]


def gone(history: History, of: Sequence[Row]) -> list[Gone]:
    """The rows of clients that were erased whole, request by request."""
    return [
        Gone(i, served.time, history.time)
        for served in history.served
        for i, row in enumerate(of)
        if row.client in served.leavers
    ]


def parts(history: History, of: Sequence[Row]) -> list[Part]:
    """Where and when some samples of a client were erased."""
    return [
        Part(i, served.time)
        for served in history.served
        for i, row in enumerate(of)
        if row.client in served.parts
    ]


def erased(history: History, of: Sequence[Row], named: bool = True) -> dict[int, str]:
    """What was erased of whom, in words: once a client, at its first row, however many requests it took.

    Not `named`: without the client, for a row that says whose it is.
    """
    samples: Counter[int] = Counter()
    whole: set[int] = set()
    for served in history.served:
        samples.update(served.parts)
        whole.update(served.leavers)
    first = _first_rows(of)
    if named:
        words = {client: some_of(history.label(client), n) for client, n in samples.items()}
        words |= {client: history.label(client) for client in whole}
    else:
        words = {client: f"{n} sample{'' if n == 1 else 's'} erased" for client, n in samples.items()}
        words |= dict.fromkeys(whole, "erased")
    return {first[client]: text for client, text in words.items() if client in first}


def sign(served: Served) -> str:
    """What a request is marked as: "join", "erase" where a client leaves, "samples" where all stay."""
    return "samples" if served.kind == "erase" and not served.leavers else served.kind


def durations(history: History) -> dict[int, float]:
    """How long each client takes: when it was profiled, which clusters go by, else on average in its lane."""
    found: dict[int, list[float]] = {}
    for trip, kind in _trips(history):
        if kind == ("apart" if history.apart else "lane"):
            found.setdefault(trip.client, []).append(trip.ended - trip.launched)
    return {client: sum(times) / len(times) for client, times in found.items()}


def restarts(history: History) -> list[tuple[float, str]]:
    """When which lane began again."""
    known = lanes(history)
    return [(s.time, name) for s in history.served for name in known if name in s.restarted]


def served_curve(history: History) -> list[Point]:
    """The served model's main metric; a request has two points, before it and after it."""
    points: list[Point] = []
    now = 0.0
    for event in history.events:
        # A lane may be behind the others' time; what is served has it from when the last of them is there.
        now = max(now, event.time)
        for scores in (event.scores,) if isinstance(event, Round) else (event.before, event.after):
            value = value_of(scores)
            if value is not None:
                points.append((now, value))
    return points


def own_curves(history: History) -> dict[str, list[Point]]:
    """Each lane's own value of it. A lane that begins again has none (NaN) until it is measured again."""
    found: dict[str, list[Point]] = {name: [] for name in lanes(history)}
    for event in history.events:
        if not isinstance(event, Round):
            for name in found.keys() & set(event.restarted):
                found[name].append((event.time, math.nan))
        elif event.lane in found and (value := value_of(event.own)) is not None:
            found[event.lane].append((event.time, value))
    return found if len(found) > 1 else {}


def band(history: History) -> list[tuple[float, float, float]]:
    """From each moment on, the least and the greatest of the lanes' latest own values.

    NaN where fewer than two lanes have one: there is nothing between them.
    """
    changes: dict[float, dict[str, float]] = {}
    for name, points in own_curves(history).items():
        for time, value in points:
            changes.setdefault(time, {})[name] = value
    latest: dict[str, float] = {}
    found = []
    for time in sorted(changes):
        latest |= changes[time]
        known = [value for value in latest.values() if not math.isnan(value)]
        low, high = (min(known), max(known)) if len(known) > 1 else (math.nan, math.nan)
        found.append((time, low, high))
    return found


def _trips(history: History) -> Iterator[tuple[Trip, str]]:
    """All work, each with the kind of its bar."""
    yield from ((trip, "apart") for trip in history.apart)
    for record in history.rounds:
        yield from ((trip, "joint" if record.lane == JOINT else "lane") for trip in record.trips)
    for served in history.served:
        yield from ((trip, "visit") for trip in served.visits)
        yield from ((trip, "cut") for trip in served.trips)


def _placed(history: History) -> set[Row]:
    """Who was in which lane at any time: by the lists of members, and by the work that was done."""
    lists = [history.members, *(served.entered for served in history.served)]
    listed = {(lane, client) for members in lists for lane, clients in members.items() for client in clients}
    # As pairs, which are quick to compare: there may be 100,000 trips.
    asked = {(trip.lane, trip.client) for trip, kind in _trips(history) if kind not in ("apart", "visit")}
    return {Row(lane, client) for lane, client in listed | asked if lane != JOINT}


def _first_rows(of: Sequence[Row]) -> dict[int, int]:
    return {row.client: i for i, row in reversed(list(enumerate(of)))}


def natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((word, int(digits or -1)) for word, digits in re.findall(r"(\D+|^)(\d*)", name))
