"""The record of a run: what it is made of, its rounds and requests, how it ended. Frozen plain values.

Inside there are numbers: `Begun.names` says what clients are called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unknot.core.jobs import Score
from unknot.core.requests import Label, numbered, some_of

NOTHING_LEFT = " (nothing was left to do)"
"""Stands after a request that was served, where all of it had been done before."""


@dataclass(frozen=True)
class Costs:
    """What the run has cost so far, in things that do not depend on this machine's speed."""

    jobs: int = 0
    """Trainings of one model by one client."""
    client_epochs: float = 0.0
    """Passes of a client over its own samples."""
    samples_read: int = 0
    """Training samples read, each reading counted."""
    bytes_down: int = 0
    """Sent to clients."""
    bytes_up: int = 0
    """Sent by clients."""
    bytes_stored: int = 0
    """What the server keeps just then: models, and what the method needs."""
    cancelled: int = 0
    """Clients that were called back while at work."""
    set_aside: int = 0
    """Updates that could not be used."""
    server_samples: int = 0
    """What the server itself read of public samples, each reading counted."""

    def plus(self, **more: float) -> Costs:
        return replace(self, **{name: getattr(self, name) + value for name, value in more.items()})


@dataclass(frozen=True, slots=True)
class Trip:
    """A client at work, from when it was sent a model until it was back, or was called back."""

    client: int
    """Who."""
    lane: str
    """For which lane."""
    launched: float
    """When it was sent the model, in simulated seconds."""
    ended: float
    """When it was back."""


@dataclass(frozen=True)
class Recovery:
    """What it took, after a request, to have regained `fraction` of the main metric before it.

    `target` is what counts as that: see `Metric.regained`. `rounds` is the most that any one lane made.
    """

    request: str
    fraction: float
    target: float
    reached: bool
    rounds: int
    seconds: float
    client_epochs: float


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


@dataclass(frozen=True)
class Begun:
    """What a run is made of."""

    method: str
    """The method's name."""
    guarantee: str
    """What is promised, in words."""
    seed: int
    """The seed of every draw."""
    metric: str = "accuracy"
    """What models are compared by: the main one."""
    metric_falls: bool = False
    """Whether less of it is better."""
    metric_share: bool = True
    """Whether it lies between 0 and 1."""
    setup: Mapping[str, Any] = field(default_factory=dict)
    """What the federation is made of: method, recipe, pace, clock, model, data, as plain values."""
    experiment: Mapping[str, Any] = field(default_factory=dict)
    """The file that the run comes from, with what was changed on the way: it can be run again from this."""
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The clients of each lane at the start; requests say who came and went.

    Here and in `nodes`, a run that is kept leaves out who was erased.
    """
    nodes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """The clients of each model of a lane that has several, at the start: an influence tree's, root first."""
    names: Mapping[int, str] = field(default_factory=dict)
    """What clients are called, where they have names and not numbers alone."""
    rounds_before: int = 0
    """How many rounds were recorded before: not 0 where a federation goes on."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """By name, the main one first."""
        return tuple(self.setup["metrics"])

    def told(self, served: Served) -> str:
        """A request in words for whoever writes them down: who leaves is a number."""
        stay = {client: name for client, name in self.names.items() if client not in served.leavers}
        return served.told(lambda client: stay.get(client, numbered(client)))


@dataclass(frozen=True)
class Round:
    """One aggregation in one lane."""

    lane: str
    """The lane's name."""
    round: int
    """The lane's own count."""
    version: int
    """Aggregations since the lane's last start."""
    time: float
    """The simulated second."""
    clients: tuple[int, ...]
    """Whose jobs landed."""
    staleness: float
    """How many versions old their updates were, on average."""
    train_loss: float
    """The mean of their training losses."""
    used: int
    """How many updates went into the model."""
    set_aside: Mapping[str, int]
    """How many did not, by what was wrong."""
    scores: Mapping[str, Score]
    """How the served model did, by split, where it was measured."""
    costs: Costs
    """What the run has cost so far."""
    own: Mapping[str, Score] = field(default_factory=dict)
    """With several lanes: how this lane's own model did."""
    trips: tuple[Trip, ...] = ()
    """When each client was at work."""

    @property
    def value(self) -> float | None:
        """The served model's main metric, as `value_of` has it."""
        return value_of(self.scores)

    @property
    def accuracy(self) -> float | None:
        """The served model's accuracy, where that is a metric of the run."""
        return value_of(self.scores, "accuracy")


@dataclass(frozen=True)
class Served:
    """A request, and what serving it did at once: before any retraining.

    Lanes count and keep time on their own, so `place` alone says what came after.
    """

    kind: str
    """What it asks for: "erase" or "join"."""
    asked: tuple[tuple[int, int | None], ...]
    """Who was named, each with how many samples; None for all of it."""
    clients: tuple[int, ...]
    """Of whom something was left to do."""
    time: float
    """The simulated second."""
    round: int
    """The count of the lanes that held them; of all lanes, where none did."""
    place: int
    """How many rounds had been recorded before it."""
    restarted: tuple[str, ...]
    """The lanes that began again."""
    cancelled: tuple[int, ...]
    """The clients that were called back."""
    purged: int
    """How many kept things were dropped."""
    before: Mapping[str, Score]
    """How the served model did before it, by split."""
    after: Mapping[str, Score]
    """How it did right after, before any retraining."""
    costs: Costs
    """What the run had cost by then."""
    trips: tuple[Trip, ...] = ()
    """The work that it cut short."""
    visits: tuple[Trip, ...] = ()
    """What clients did for a last time before their data was closed."""
    lanes: tuple[str, ...] = ()
    """The lanes that held its clients when it came."""
    samples: tuple[int | None, ...] = ()
    """Of each client how many samples were erased, None where all of it was."""
    entered: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Who is in a lane since."""
    left: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Who is in a lane no more."""

    @property
    def request(self) -> str:
        """It in words, in which clients are numbers."""
        return self.told(numbered)

    def told(self, label: Label) -> str:
        """It in words, with clients as people call them."""
        who = ", ".join(some_of(label(client), samples) for client, samples in self.asked)
        return f"{self.kind} {who}" + NOTHING_LEFT * (not self.clients)

    @property
    def parts(self) -> dict[int, int]:
        """The clients that were erased in part and stay, with how many samples of theirs."""
        named = zip(self.clients, self.samples, strict=bool(self.samples))
        return {client: count for client, count in named if count is not None}

    @property
    def leavers(self) -> tuple[int, ...]:
        """The clients that were erased whole."""
        return tuple(c for c in self.clients if c not in self.parts) if self.kind == "erase" else ()


Event = Round | Served


@dataclass(frozen=True)
class Ended:
    """How a run ended, or was broken off: then `error` says by what, and there are no scores and no model."""

    stopped: str = ""
    """Why: "rounds", "seconds", "accuracy", "goal" or "no clients left"."""
    error: str = ""
    """What broke it off; nothing where it ended by itself."""
    guarantee: str = ""
    """What was promised, in words."""
    time: float = 0.0
    """Simulated seconds."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """How the served model does, by split, on all data that it can be measured on."""
    initial: Mapping[str, Score] = field(default_factory=dict)
    """How the model does that everything begins with, and begins again with: on one split."""
    choices: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    """Where what is served is a choice: how each of the models does that could be."""
    costs: Costs = Costs()
    """What the run has cost."""
    recoveries: tuple[Recovery, ...] = ()
    """What it took to be as good as before, for each erasure."""
    seconds: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "total": 0.0}
    )
    """Real ones: to train, to evaluate, in total."""
    warnings: tuple[str, ...] = ()
    """What went wrong without an error, a sentence each."""
    unserved: tuple[str, ...] = ()
    """Requests whose moment has not come yet."""
    waived: tuple[str, ...] = ()
    """Erased units that what an approximate method kept had been shaped by, and that were let pass."""
    set_aside_observers: tuple[SetAside, ...] = ()
    """Observers that raised: the run is as it would be without them, but what they note ends there."""
    apart: tuple[Trip, ...] = ()
    """Work for no lane: the profiling round, before training."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Versions, machine and engine that it ran with."""
    model: str | None = None
    """The served model's digest."""
    ensemble: int | None = None
    """Of how many models it consists, where it is several that answer together."""
    lineage: tuple[str, ...] | None = None
    """Whose data shaped it."""


def value_of(scores: Mapping[str, Score], metric: str | None = None) -> float | None:
    """A metric, or the main one: on the validation data, on the test data where there is no other."""
    score = next((scores[split] for split in ("validation", "test") if split in scores), None)
    if score is None:
        return None
    return score.value if metric is None else score.metrics.get(metric)
