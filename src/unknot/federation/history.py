"""What happened: rounds, requests, costs. Plain values that turn into JSON."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, Metric

NOBODY_LEFT = "no clients left"
NOTHING_LEFT = " (nothing was left to do)"
"""Stands after a request that was served, where all of it had been done before."""
REGAINED = 0.99
"""The share of the main metric before an erasure at which it counts as regained."""
TOO_MANY = 0.5
"""The share of updates that are set aside from which on a run is not well."""
WORSE = 10
"""So many times the loss of the model that it began with: then a run has diverged."""
IDLE = 3
"""Rounds of a lane, at its end, from which none was used: then it is not well either."""
TOO_HIGH = "the learning rate may be too high"
HINTS = {"not finite": TOO_HIGH}


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
    set_aside: dict[str, int]
    """How many did not, by what was wrong."""
    scores: dict[str, Score]
    """How the served model did, by split, where it was measured."""
    costs: Costs
    """What the run has cost so far."""
    own: dict[str, Score] = field(default_factory=dict)
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

    request: str
    """The request in words."""
    kind: str
    """What it asks for: "erase" or "join"."""
    clients: tuple[int, ...]
    """Who was named."""
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
    before: dict[str, Score]
    """How the served model did before it, by split."""
    after: dict[str, Score]
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
    entered: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Who is in a lane since."""
    left: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Who is in a lane no more."""

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
        requests = "; ".join(f"{s.request} at round {s.round}" for s in self.served) or "no requests"
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
        whole, since = (
            _mostly_aside(self.rounds),
            _mostly_aside(self.since_request, " since the last request"),
        )
        found = [whole or since] if whole or since else []
        found += self.nobody_left
        by_lane: dict[str, list[Round]] = {}
        for record in self.rounds:
            by_lane.setdefault(record.lane, []).append(record)
        if len(by_lane) > 1 or not found:
            found += [text for name, records in by_lane.items() if (text := _idle(name, records))]
        return found + self._diverged() + self._unmeasured()

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

    def _diverged(self) -> list[str]:
        """A sentence if what is served is far worse than what nothing was learned for."""
        split = next((split for split in ("validation", "test") if split in self.scores), "")
        if not split:
            return []
        if split in self.initial:
            least, whose = self.initial[split].loss, "of the model that it began with"
        else:
            known = [event.scores if isinstance(event, Round) else event.before for event in self.events]
            losses = [scores[split].loss for scores in known if split in scores]
            least, whose = min(losses, default=0.0), "that it had been"
        loss = self.scores[split].loss
        # A loss of one's own may be nothing, or less: then so many times it says nothing.
        if least <= 0 or not loss > WORSE * least:
            return []
        told = (
            f"the loss on the {split} data is {loss:.4g} at the end, more than {WORSE} times the {least:.4g}"
        )
        return [f"{told} {whose}: it has diverged; {TOO_HIGH}"]

    def _unmeasured(self) -> list[str]:
        """The metrics that were no numbers when they were last measured."""
        last = next((record.scores for record in reversed(self.rounds) if record.scores), {})
        found: dict[str, str] = {}
        for split, score in {**last, **self.scores}.items():
            for name, value in score.metrics.items():
                if not math.isfinite(value):
                    found.setdefault(name, f"{value} on the {split} data")
        return [
            f"the metric {name!r} is no finite number ({told}): it reaches no goal, and the record has "
            "null for it"
            for name, told in found.items()
        ]

    @property
    def recoveries(self) -> list[Recovery]:
        """Of all erasures."""
        return [r for served in self.served if served.kind == "erase" and (r := self.recovery(served))]

    def recovery(self, served: Served, fraction: float = REGAINED) -> Recovery | None:
        """The cost of getting back to `fraction` of the main metric before a request, one of `served`."""
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
            "requests": self.served,
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


def told(served: Served, names: Mapping[int, str]) -> str:
    """A request in words; whom it calls by number has a name, where there is one here."""

    def called(found: re.Match[str]) -> str:
        client = int(found[1])
        return names.get(client, found[0]) if client in served.clients else found[0]

    return re.sub(r"\bclient ([0-9]+)\b", called, served.request)


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
