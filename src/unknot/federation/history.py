"""What happened: rounds, requests, costs. Plain values that turn into JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from unknot.core.ensemble import Model
from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, Metric

NOBODY_LEFT = "no clients left"
REGAINED = 0.99
"""The share of the main metric before an erasure at which it counts as regained."""
TOO_MANY = 0.5
"""The share of updates that are set aside from which on a run is not well."""
IDLE = 3
"""Rounds of a lane, at its end, from which none was used: then it is not well either."""
HINTS = {"not finite": "the learning rate may be too high"}


@dataclass(frozen=True)
class Costs:
    """What the run has cost so far, in things that do not depend on this machine's speed."""

    jobs: int = 0
    client_epochs: float = 0.0
    samples_read: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    bytes_stored: int = 0
    cancelled: int = 0
    set_aside: int = 0
    server_samples: int = 0
    """What the server itself read of public samples, each reading counted."""

    def plus(self, **more: float) -> Costs:
        return replace(self, **{name: getattr(self, name) + value for name, value in more.items()})


@dataclass(frozen=True)
class Trip:
    """A client at work, from when it was sent a model until it was back, or was called back."""

    client: int
    lane: str
    launched: float
    ended: float


@dataclass(frozen=True)
class Round:
    """One aggregation in one lane, of `used` updates; `set_aside` counts the others by what was wrong.

    `round` is the lane's own count. `scores` are those of the model that is served; where there are
    several lanes, `own` are those of this lane's own model.
    """

    lane: str
    round: int
    version: int
    time: float
    clients: tuple[int, ...]
    staleness: float
    train_loss: float
    used: int
    set_aside: dict[str, int]
    scores: dict[str, Score]
    costs: Costs
    own: dict[str, Score] = field(default_factory=dict)
    trips: tuple[Trip, ...] = ()

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
    """A request, and what serving it did at once: before any retraining. `trips` were cut short by it.

    `lanes` held its clients when it came, and `round` is their count; that of all lanes, where none
    did. `place` is the number of rounds that had been recorded before it: lanes count and keep time
    on their own, so it alone says what came after. `samples` says of each client how many of its
    samples were erased, None where all of it was; `entered` and `left`, who is where since. `visits` are
    what clients did for a last time before their data was closed, where the method has them do something.
    """

    request: str
    kind: str
    clients: tuple[int, ...]
    time: float
    round: int
    place: int
    restarted: tuple[str, ...]
    cancelled: tuple[int, ...]
    purged: int
    before: dict[str, Score]
    after: dict[str, Score]
    costs: Costs
    trips: tuple[Trip, ...] = ()
    visits: tuple[Trip, ...] = ()
    lanes: tuple[str, ...] = ()
    samples: tuple[int | None, ...] = ()
    entered: dict[str, tuple[int, ...]] = field(default_factory=dict)
    left: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def parts(self) -> dict[int, int]:
        """The clients that were erased in part and stay, with how many samples of theirs."""
        named = zip(self.clients, self.samples, strict=bool(self.samples))
        return {client: count for client, count in named if count is not None}

    @property
    def leavers(self) -> tuple[int, ...]:
        """The clients that were erased whole."""
        return tuple(c for c in self.clients if c not in self.parts) if self.kind == "erase" else ()


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


Event = Round | Served


@dataclass(repr=False)
class History:
    """The record of a run. `model` is what is served at the end."""

    method: str
    guarantee: str
    seed: int
    metric: Metric = ACCURACY
    """What models are compared by: the main one."""
    environment: dict[str, Any] = field(default_factory=dict)
    setup: dict[str, Any] = field(default_factory=dict)
    """What the federation was made of: method, recipe, pace, clock, model, data, as plain values."""
    experiment: dict[str, Any] = field(default_factory=dict)
    """The file that the run came from, with what was changed on the way: it can be run again from this."""
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The clients of each lane at the start; requests say who came and went."""
    names: dict[int, str] = field(default_factory=dict)
    """What clients are called, where they have names and not numbers alone."""
    rounds: list[Round] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    apart: list[Trip] = field(default_factory=list)
    """Work for no lane: the profiling round, before training."""
    scores: dict[str, Score] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "total": 0.0})
    stopped: str = ""
    unserved: list[str] = field(default_factory=list)
    """Requests whose moment has not come yet."""
    waived: list[str] = field(default_factory=list)
    """Erased units that what an approximate method kept had been shaped by, and that were let pass."""
    choices: dict[str, dict[str, Score]] = field(default_factory=dict)
    """Where what is served is a choice: how each of the models that could be did, at the end."""
    model: Model | None = None

    def __repr__(self) -> str:
        scores = [f"{split} {self.metric.name} {score.value:.3f}" for split, score in self.scores.items()]
        requests = "; ".join(f"{s.request} at round {s.round}" for s in self.served) or "no requests"
        parts = [self.method, f"{len(self.rounds)} rounds", f"{self.time:.1f} s", requests, *scores]
        return f"History({', '.join([*parts, *filter(None, [self.let_pass])])})"

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
        whole, since = (
            _mostly_aside(self.rounds),
            _mostly_aside(self.since_request, " since the last request"),
        )
        found = [whole or since] if whole or since else []
        if self.stopped == NOBODY_LEFT:
            found.append("no clients are left: the run ended before its time")
        by_lane: dict[str, list[Round]] = {}
        for record in self.rounds:
            by_lane.setdefault(record.lane, []).append(record)
        if len(by_lane) > 1 or not found:
            found += [text for name, records in by_lane.items() if (text := _idle(name, records))]
        return found

    def recovery(self, served: Served, fraction: float = REGAINED) -> Recovery | None:
        """The cost of getting back to `fraction` of the main metric before a request."""
        before = value_of(served.before)
        if before is None:
            return None
        target = self.metric.regained(before, fraction)
        reached, taken = self.metric.reached(value_of(served.after), target), 0
        later = self.rounds[served.place :]
        while not reached and taken < len(later):
            reached, taken = self.metric.reached(later[taken].value, target), taken + 1
        by_lane = Counter(record.lane for record in later[:taken])
        # A lane may be behind the others' time: what is reached is there when the last of them is.
        seconds = max((record.time - served.time for record in later[:taken]), default=0.0)
        epochs = later[taken - 1].costs.client_epochs - served.costs.client_epochs if taken else 0.0
        return Recovery(
            request=served.request,
            fraction=fraction,
            target=target,
            reached=reached,
            rounds=max(by_lane.values(), default=0),
            seconds=max(seconds, 0.0),
            client_epochs=epochs,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON (which knows no NaN: such numbers become null)."""
        record = {
            "method": self.method,
            "guarantee": self.guarantee,
            "seed": self.seed,
            "stopped": self.stopped,
            "warnings": self.warnings,
            "unserved": list(self.unserved),
            "waived": list(self.waived),
            "time": self.time,
            "metric": self.metric.name,
            "scores": self.scores,
            "choices": self.choices,
            "costs": self.costs,
            "model": None if self.model is None else self.model.digest(),
            "lineage": None if self.model is None else self.model.lineage.describe(self.label),
            "requests": self.served,
            "recoveries": [r for s in self.served if s.kind == "erase" and (r := self.recovery(s))],
            "members": self.members,
            "names": {str(client): name for client, name in self.names.items()},
            "rounds": self.rounds,
            "apart": self.apart,
            "seconds": dict(self.seconds),
            "environment": self.environment,
            "setup": self.setup,
            "experiment": self.experiment,
        }
        return {name: _plain(value) for name, value in record.items()}


def value_of(scores: Mapping[str, Score], metric: str | None = None) -> float | None:
    """A metric, or the main one: on the validation data, on the test data where there is no other."""
    score = next((scores[split] for split in ("validation", "test") if split in scores), None)
    if score is None:
        return None
    return score.value if metric is None else score.metrics.get(metric)


def _mostly_aside(rounds: Sequence[Round], when: str = "") -> str:
    aside = sum((Counter(record.set_aside) for record in rounds), Counter[str]())
    every = aside.total() + sum(record.used for record in rounds)
    if not aside or aside.total() < TOO_MANY * every:
        return ""
    return f"{aside.total()} of {every} updates{when} were set aside ({_reasons(aside)}){_hint(aside)}"


def _idle(lane: str, rounds: Sequence[Round]) -> str:
    """Of a lane that has come to a stand: nothing that it was sent at the end could be used."""
    aside, last = Counter[str](), 0
    for record in reversed(rounds):
        if record.used:
            break
        # A round of clients that hold nothing brings no update, and nothing is wrong with that.
        aside.update(record.set_aside)
        last += bool(record.set_aside)
    if last < IDLE:
        return ""
    return f"{lane} used no update in its last {last} rounds ({_reasons(aside)}){_hint(aside)}"


def _reasons(aside: Counter[str]) -> str:
    return ", ".join(reason for reason, _ in aside.most_common())


def _hint(aside: Counter[str]) -> str:
    hints = [HINTS[reason] for reason, _ in aside.most_common(1) if reason in HINTS]
    return "".join(f": {hint}" for hint in hints)


def _plain(value: Any) -> Any:
    if isinstance(value, Score):
        value = value.to_dict()
    if is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
