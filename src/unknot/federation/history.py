"""The record of a run: what happened in it, how it went, and all of that ready for JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, Metric
from unknot.federation.events import Costs, Event, Round, Served, Trip, told
from unknot.federation.health import diverged, idle_lanes, mostly_set_aside, unmeasured
from unknot.federation.recovery import REGAINED, Recovery

NOBODY_LEFT = "no clients left"


@dataclass(frozen=True)
class SetAside:
    """An observer that raised, when, and what; it was told no more."""

    observer: str
    when: str
    error: str

    def __str__(self) -> str:
        return f"the observer {self.observer} was set aside at {self.when}: {self.error}"

    @property
    def wordless(self) -> SetAside:
        """The same, without what the error said: its words may be about anybody."""
        kind, place = re.match(r"\w*", self.error), re.search(r" \([\w.]+:\d+\)$", self.error)
        return replace(self, error="".join(found[0] for found in (kind, place) if found))


@dataclass(repr=False)
class History:
    """The record of a run. `model` is what is served at the end."""

    method: str
    """The method's name."""
    guarantee: str
    """What was promised, in words."""
    seed: int
    """The seed of every draw."""
    metric: Metric = ACCURACY
    """What models are compared by: the main one."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions, machine and engine that it ran with."""
    setup: dict[str, Any] = field(default_factory=dict)
    """What the federation was made of: method, recipe, pace, clock, model, data, as plain values."""
    experiment: dict[str, Any] = field(default_factory=dict)
    """The file that the run came from, with what was changed on the way: it can be run again from this."""
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The clients of each lane at the start; requests say who came and went.

    Here and in `nodes`, a run that is kept leaves out who was erased.
    """
    nodes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """The clients of each model of a lane that has several, at the start: an influence tree's, root first."""
    names: dict[int, str] = field(default_factory=dict)
    """What clients are called, where they have names and not numbers alone."""
    rounds: list[Round] = field(default_factory=list)
    """Every aggregation, in order."""
    served: list[Served] = field(default_factory=list)
    """Every request that was served, in order."""
    apart: list[Trip] = field(default_factory=list)
    """Work for no lane: the profiling round, before training."""
    scores: dict[str, Score] = field(default_factory=dict)
    """How the served model did at the end, by split."""
    initial: dict[str, Score] = field(default_factory=dict)
    """How the model does that everything begins with, and begins again with: on one split, at the end."""
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "total": 0.0})
    """Real seconds: to train, to evaluate, in all."""
    stopped: str = ""
    """Why it ended: "rounds", "seconds", "accuracy", "goal" or "no clients left"."""
    unserved: list[str] = field(default_factory=list)
    """Requests whose moment has not come yet."""
    waived: list[str] = field(default_factory=list)
    """Erased units that what an approximate method kept had been shaped by, and that were let pass."""
    set_aside_observers: list[SetAside] = field(default_factory=list)
    """Observers that raised: the run is as it would be without them, but what they note ends there."""
    choices: dict[str, dict[str, Score]] = field(default_factory=dict)
    """Where what is served is a choice: how each of the models that could be did, at the end."""
    model: Model | None = None
    """What is served at the end."""

    def set_aside(self, aside: SetAside) -> None:
        """An observer raised. Once something was erased its words are left out: it may remember of whom."""
        erased = any(event.kind == "erase" for event in self.served)
        self.set_aside_observers.append(aside.wordless if erased else aside)

    def forget(self) -> None:
        """Something is erased: keep no model from before, and no words that somebody else chose."""
        self.model = None
        self.set_aside_observers = [aside.wordless for aside in self.set_aside_observers]

    def leave_out(self, clients: Collection[int]) -> None:
        """Of who is erased from the disk, not where it was at the start: that may have come of its data."""
        self.members = {lane: _without(who, clients) for lane, who in self.members.items()}
        self.nodes = {
            lane: [left for one in nodes if (left := _without(one, clients))]
            for lane, nodes in self.nodes.items()
        }

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
        """A request in words, in which who is still there goes by name: a run that is kept logs numbers."""
        return told(served, self.names)

    def label(self, client: int) -> str:
        """What a client is called: its name, or ``client 3``."""
        return self.names.get(client, f"client {client}")

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
        nobody = self.model is not None and not self.model.lineage
        return [
            f"no clients are left{erased}: the run ended before its time"
            + ", and what is served has learned from nobody" * nobody
        ]

    @property
    def recoveries(self) -> list[Recovery]:
        """Of all erasures."""
        return [r for served in self.served if served.kind == "erase" and (r := self.recovery(served))]

    def recovery(self, served: Served, fraction: float = REGAINED) -> Recovery | None:
        """The cost of getting back to `fraction` of the main metric before a request, one of `served`."""
        named = replace(served, request=self.told(served))
        return Recovery.after(named, self.rounds[served.place :], self.metric, fraction)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON (which knows no NaN: such numbers become null).

        Clients go by their names, where they have names, and else by their numbers; `names` has both.
        """
        record = {
            "method": self.method,
            "guarantee": self.guarantee,
            "seed": self.seed,
            "stopped": self.stopped,
            "warnings": self.warnings,
            "unserved": list(self.unserved),
            "waived": list(self.waived),
            "set_aside_observers": self.set_aside_observers,
            "time": self.time,
            "metric": self.metric.name,
            "metric_falls": self.metric.falls,
            "metric_share": self.metric.share,
            "scores": self.scores,
            "initial": self.initial,
            "choices": self.choices,
            "costs": self.costs,
            "model": None if self.model is None else self.model.digest(),
            "ensemble": len(self.model.parts) if isinstance(self.model, Ensemble) else None,
            "lineage": None if self.model is None else self.model.lineage.describe(self.label),
            "requests": [replace(served, request=self.told(served)) for served in self.served],
            "recoveries": self.recoveries,
            "members": _called(self.members, self.names),
            "nodes": {
                lane: [_called(one, self.names) for one in nodes] for lane, nodes in self.nodes.items()
            },
            "names": {str(client): name for client, name in self.names.items()},
            "rounds": self.rounds,
            "apart": self.apart,
            "seconds": dict(self.seconds),
            "environment": self.environment,
            "setup": self.setup,
            "experiment": self.experiment,
        }
        return {name: _plain(value, self.names) for name, value in record.items()}


_WHO = {Trip: ("client",), Round: ("clients",), Served: ("clients", "cancelled", "entered", "left")}
"""The fields that are clients, or hold some."""


def _without(who: tuple[int, ...], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(client for client in who if client not in gone)


def _called(who: Any, names: Mapping[int, str]) -> Any:
    """A client, or some of them, or those of each lane, by their names where they have names."""
    if isinstance(who, dict):
        return {lane: _called(clients, names) for lane, clients in who.items()}
    return [_called(client, names) for client in who] if isinstance(who, tuple) else names.get(who, who)


def _plain(value: Any, names: Mapping[int, str]) -> Any:
    if isinstance(value, Score):
        value = value.to_dict()
    if is_dataclass(value):
        who = _WHO.get(type(value), ())
        value = {item.name: getattr(value, item.name) for item in fields(value)}
        value |= {name: _called(value[name], names) for name in who}
    if isinstance(value, dict):
        return {name: _plain(item, names) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, names) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
