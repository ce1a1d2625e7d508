"""The record of a run, read: its events, what they come to, and all of that as JSON and back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Score
from unknot.core.metrics import METRICS, Metric, OwnMetric
from unknot.core.requests import numbered
from unknot.federation.events import (
    Begun,
    Costs,
    Ended,
    Event,
    Recovery,
    Round,
    Served,
    SetAside,
    Trip,
    value_of,
)
from unknot.federation.health import diverged, idle_lanes, mostly_set_aside, unmeasured

NOBODY_LEFT = "no clients left"
REGAINED = 0.99
"""The share of the main metric before an erasure at which it counts as regained."""
MEASURED = ("rounds", "requests", "scores", "initial", "choices", "recoveries")
"""Parts of a record in which null is a number that is none."""


@dataclass(repr=False)
class History:
    """The record of a run: what it was made of, what happened, how it stands or ended, and what is served."""

    begun: Begun
    """What it is made of."""
    rounds: list[Round] = field(default_factory=list)
    """Every aggregation, in order."""
    served: list[Served] = field(default_factory=list)
    """Every request that was served, in order."""
    ended: Ended = field(default_factory=Ended)
    """How it ended; while it goes on, what is known of that."""
    model: Model | None = None
    """What is served at the end."""
    judge: Metric | None = None
    """The main metric itself, where the run is this process's: one of your own may say what is better."""

    # What it is made of, and how it ended --------------------------------------------------------

    @property
    def method(self) -> str:
        return self.begun.method

    @property
    def guarantee(self) -> str:
        return self.ended.guarantee or self.begun.guarantee

    @property
    def seed(self) -> int:
        return self.begun.seed

    @cached_property
    def metric(self) -> Metric:
        """What models are compared by."""
        if self.judge is not None:
            return self.judge
        name = self.begun.metric
        if name in METRICS:
            return METRICS[name]()
        return OwnMetric(_gone, name, self.begun.metric_falls, self.begun.metric_share)

    @property
    def setup(self) -> Mapping[str, Any]:
        return self.begun.setup

    @property
    def experiment(self) -> Mapping[str, Any]:
        return self.begun.experiment

    @property
    def members(self) -> Mapping[str, tuple[int, ...]]:
        return self.begun.members

    @property
    def nodes(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        return self.begun.nodes

    @property
    def names(self) -> Mapping[int, str]:
        return self.begun.names

    @property
    def stopped(self) -> str:
        return self.ended.stopped

    @property
    def scores(self) -> Mapping[str, Score]:
        return self.ended.scores

    @property
    def initial(self) -> Mapping[str, Score]:
        return self.ended.initial

    @property
    def choices(self) -> Mapping[str, Mapping[str, Score]]:
        return self.ended.choices

    @property
    def seconds(self) -> Mapping[str, float]:
        return self.ended.seconds

    @property
    def unserved(self) -> list[str]:
        return list(self.ended.unserved)

    @property
    def waived(self) -> list[str]:
        return list(self.ended.waived)

    @property
    def set_aside_observers(self) -> list[SetAside]:
        return list(self.ended.set_aside_observers)

    @property
    def apart(self) -> list[Trip]:
        return list(self.ended.apart)

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.ended.environment

    # While it goes on ----------------------------------------------------------------------------

    def spend(self, **seconds: float) -> None:
        """So many real seconds more."""
        known = {name: value + seconds.get(name, 0.0) for name, value in self.seconds.items()}
        self.ended = replace(self.ended, seconds=known)

    def set_aside(self, aside: SetAside) -> None:
        """An observer raised. Once something was erased its words are left out: it may remember of whom."""
        erased = any(event.kind == "erase" for event in self.served)
        asides = (*self.set_aside_observers, aside.wordless if erased else aside)
        self.ended = replace(self.ended, set_aside_observers=asides)

    def forget(self) -> None:
        """Something is erased: keep no model from before, and no words that somebody else chose."""
        self.model = None
        asides = tuple(aside.wordless for aside in self.set_aside_observers)
        self.ended = replace(self.ended, set_aside_observers=asides, model=None, lineage=None)

    def leave_out(self, clients: Collection[int]) -> None:
        """Of who is erased from the disk, not where it was at the start: that may have come of its data."""
        members = {lane: _without(who, clients) for lane, who in self.members.items()}
        nodes = {
            lane: tuple(left for one in nodes if (left := _without(one, clients)))
            for lane, nodes in self.nodes.items()
        }
        self.begun = replace(self.begun, members=members, nodes=nodes)

    # What it comes to ----------------------------------------------------------------------------

    def __repr__(self) -> str:
        scores = [f"{split} {self.metric.name} {score.value:.3f}" for split, score in self.scores.items()]
        requests = "; ".join(f"{self.told(s)} at round {s.round}" for s in self.served) or "no requests"
        parts = [
            self.method,
            f"{len(self.rounds)} round{'s' * (len(self.rounds) != 1)}",
            f"{self.time:.1f} s",
            requests,
            *scores,
        ]
        notes = [*filter(None, [self.let_pass]), *map(str, self.set_aside_observers), *self.warnings]
        return f"History({', '.join([*parts, *notes])})"

    def told(self, served: Served) -> str:
        """A request in words, in which clients go by name."""
        return served.told(self.label)

    def label(self, client: int) -> str:
        """What a client is called: its name, or ``client 3``."""
        return self.names.get(client, numbered(client))

    @property
    def let_pass(self) -> str:
        """What an approximate method used although it knows erased data, for people; nothing if nothing."""
        return f"kept although erased data had a part in it: {', '.join(self.waived)}" if self.waived else ""

    @property
    def events(self) -> list[Event]:
        """Rounds and requests in the order in which they happened."""
        found: list[Event] = []
        done = 0
        for served in self.served:
            found += [*self.rounds[done : served.place], served]
            done = max(done, served.place)
        return [*found, *self.rounds[done:]]

    @property
    def since_request(self) -> list[Round]:
        """The rounds after the last request: what was reached before it says nothing any more."""
        return self.rounds[self.served[-1].place :] if self.served else list(self.rounds)

    @property
    def time(self) -> float:
        """Simulated seconds."""
        return max((event.time for event in self.events), default=0.0)

    @property
    def costs(self) -> Costs:
        return max(
            (event.costs for event in self.events), key=lambda c: (c.jobs, c.server_samples), default=Costs()
        )

    @property
    def value(self) -> float | None:
        """The main metric as it was last measured during the run."""
        return next((r.value for r in reversed(self.rounds) if r.value is not None), None)

    @property
    def accuracy(self) -> float | None:
        """The accuracy that was last measured during the run, where that is a metric of it."""
        return next((r.accuracy for r in reversed(self.rounds) if r.accuracy is not None), None)

    @property
    def warnings(self) -> list[str]:
        """What went wrong without an error, a sentence each: the model is not what it seems."""
        if self.judge is None and self.ended.warnings:  # of a record that was read
            return list(self.ended.warnings)
        found = mostly_set_aside(self.rounds, self.since_request) + self.nobody_left
        if len({record.lane for record in self.rounds}) > 1 or not found:
            found += idle_lanes(self.rounds)
        return found + diverged(self.scores, self.initial, self.events) + unmeasured(self.scores, self.rounds)

    @property
    def nobody_left(self) -> list[str]:
        """A sentence if the run ended because there was nobody to train with."""
        if self.stopped != NOBODY_LEFT:
            return []
        erased = ", everybody was erased" if any(served.leavers for served in self.served) else ""
        nobody = self.ended.lineage == () == self.ended.waived
        return [
            f"no clients are left{erased}: the run ended before its time"
            + ", and what is served has learned from nobody" * nobody
        ]

    @property
    def recoveries(self) -> list[Recovery]:
        """Of all erasures."""
        if self.judge is None and self.ended.recoveries:  # of a record that was read
            return list(self.ended.recoveries)
        return [r for served in self.served if served.kind == "erase" and (r := self.recovery(served))]

    def recovery(self, served: Served, fraction: float = REGAINED) -> Recovery | None:
        """The cost of getting back to `fraction` of the main metric before a request, one of `served`.

        None where nothing had been measured before.
        """
        before, later = value_of(served.before), self.rounds[served.place :]
        if before is None:
            return None
        target = self.metric.regained(before, fraction)
        reached, taken = self.metric.reached(value_of(served.after), target), 0
        while not reached and taken < len(later):
            reached, taken = self.metric.reached(later[taken].value, target), taken + 1
        by_lane = Counter(record.lane for record in later[:taken])
        # A lane may be behind the others' time: what is reached is there when the last of them is.
        seconds = max((record.time - served.time for record in later[:taken]), default=0.0)
        epochs = later[taken - 1].costs.client_epochs - served.costs.client_epochs if taken else 0.0
        return Recovery(
            request=self.told(served),
            fraction=fraction,
            target=target,
            reached=reached,
            rounds=max(by_lane.values(), default=0),
            seconds=max(seconds, 0.0),
            client_epochs=epochs,
        )

    # Written -------------------------------------------------------------------------------------

    def end(self, error: str = "") -> Ended:
        """The end, with all that it comes to; or that the run was broken off by an error."""
        ended = replace(
            self.ended,
            guarantee=self.guarantee,
            time=self.time,
            costs=self.costs,
            recoveries=tuple(self.recoveries),
            warnings=tuple(self.warnings),
        )
        return replace(ended, error=error, stopped="", scores={}, unserved=(), model=None) if error else ended

    def serves(self, model: Model) -> None:
        """This is what is served at the end."""
        self.model = model
        self.ended = replace(
            self.ended,
            model=model.digest(),
            ensemble=len(model.parts) if isinstance(model, Ensemble) else None,
            lineage=tuple(model.lineage.describe(self.label)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON (which knows no NaN: such numbers become null).

        Clients are numbers; `names` says what they are called, and requests are in words as well.
        """
        requests = [{"request": self.told(served), **vars(served)} for served in self.served]
        record = {**vars(self.begun), **vars(self.end()), "requests": requests, "rounds": self.rounds}
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record, enc_hook=str))
        return found

    @staticmethod
    def of(record: Mapping[str, Any]) -> History:
        """From plain values: what `to_dict` gave, and JSON kept. Everything but the model."""
        known = {**record, **{name: _measured(record[name]) for name in MEASURED}}
        return History(
            msgspec.convert(known, Begun, str_keys=True),
            msgspec.convert(known["rounds"], list[Round]),
            msgspec.convert(known["requests"], list[Served]),
            msgspec.convert(known, Ended),
        )


def _measured(value: Any) -> Any:
    """With NaN for null in tables."""
    if isinstance(value, Mapping):
        return {name: math.nan if item is None else _measured(item) for name, item in value.items()}
    return [*map(_measured, value)] if isinstance(value, list) else value


def _without(who: tuple[int, ...], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(client for client in who if client not in gone)


def _gone(*_: object) -> float:
    raise NotImplementedError("a record has a metric's values, not the metric")
