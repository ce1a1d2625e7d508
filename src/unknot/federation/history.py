"""What happened: rounds, requests, costs. Plain values that turn into JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from unknot.core.ensemble import Model
from unknot.core.jobs import Score


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
    """One aggregation in one lane.

    `scores` are those of the model that is served; where there are several lanes, `own` are those of
    this lane's own model.
    """

    lane: str
    round: int
    version: int
    time: float
    clients: tuple[int, ...]
    staleness: float
    train_loss: float
    set_aside: dict[str, int]
    scores: dict[str, Score]
    costs: Costs
    own: dict[str, Score] = field(default_factory=dict)
    trips: tuple[Trip, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """The served model's, as `accuracy_of` has it."""
        return accuracy_of(self.scores)


@dataclass(frozen=True)
class Served:
    """A request, and what serving it did at once: before any retraining. `trips` were cut short by it."""

    request: str
    kind: str
    clients: tuple[int, ...]
    time: float
    round: int
    restarted: tuple[str, ...]
    cancelled: tuple[int, ...]
    purged: int
    before: dict[str, Score]
    after: dict[str, Score]
    costs: Costs
    trips: tuple[Trip, ...] = ()


@dataclass(frozen=True)
class Recovery:
    """What it took, after a request, to be as good as before it."""

    request: str
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
    environment: dict[str, Any] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    apart: list[Trip] = field(default_factory=list)
    """Work for no lane: the profiling round, before training."""
    scores: dict[str, Score] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "total": 0.0})
    stopped: str = ""
    unserved: list[str] = field(default_factory=list)
    """Requests whose moment never came."""
    waived: list[str] = field(default_factory=list)
    """Erased units that an approximate method's keepsakes had been shaped by, and that were let pass."""
    choices: dict[str, dict[str, Score]] = field(default_factory=dict)
    """Where what is served is a choice: how each of the models that could be did, at the end."""
    model: Model | None = None

    def __repr__(self) -> str:
        scores = ", ".join(f"{split} accuracy {score.accuracy:.3f}" for split, score in self.scores.items())
        requests = "; ".join(f"{s.request} at round {s.round}" for s in self.served) or "no requests"
        return f"History({self.method}, {len(self.rounds)} rounds, {self.time:.1f} s, {requests}, {scores})"

    @property
    def events(self) -> list[Event]:
        """Rounds and requests in the order of time."""
        return sorted([*self.rounds, *self.served], key=lambda event: event.time)

    @property
    def since_request(self) -> list[Round]:
        """The rounds after the last request: what was reached before it says nothing any more."""
        done = sum(served.costs.jobs for served in self.served[-1:])
        return [record for record in self.rounds if record.costs.jobs > done]

    @property
    def time(self) -> float:
        """Simulated seconds."""
        return max((event.time for event in self.events), default=0.0)

    @property
    def costs(self) -> Costs:
        return max((event.costs for event in self.events), key=lambda c: c.jobs, default=Costs())

    @property
    def accuracy(self) -> float | None:
        """The last one measured during the run."""
        return next((r.accuracy for r in reversed(self.rounds) if r.accuracy is not None), None)

    def recovery(self, served: Served, fraction: float = 1.0) -> Recovery | None:
        """The cost of getting back to `fraction` of the accuracy before a request."""
        before = accuracy_of(served.before)
        if before is None:
            return None
        target = fraction * before
        after = [r for r in self.rounds if r.time >= served.time and r.round > served.round]
        for record in after:
            if record.accuracy is not None and record.accuracy >= target:
                return self._recovery(served, target, True, record)
        return self._recovery(served, target, False, after[-1] if after else None)

    @staticmethod
    def _recovery(served: Served, target: float, reached: bool, at: Round | None) -> Recovery:
        # Lanes side by side each have a record of a round; it is one round all the same.
        count = at.round - served.round if at else 0
        seconds = at.time - served.time if at else 0.0
        epochs = at.costs.client_epochs - served.costs.client_epochs if at else 0.0
        return Recovery(served.request, target, reached, count, seconds, epochs)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON (which knows no NaN: such numbers become null)."""
        record = {
            "method": self.method,
            "guarantee": self.guarantee,
            "seed": self.seed,
            "stopped": self.stopped,
            "unserved": list(self.unserved),
            "waived": list(self.waived),
            "time": self.time,
            "scores": {split: asdict(score) for split, score in self.scores.items()},
            "choices": {
                name: {split: asdict(score) for split, score in scores.items()}
                for name, scores in self.choices.items()
            },
            "costs": asdict(self.costs),
            "model": None if self.model is None else self.model.digest(),
            "lineage": None if self.model is None else self.model.lineage.describe(),
            "requests": [asdict(served) for served in self.served],
            "recoveries": [asdict(r) for s in self.served if s.kind == "erase" and (r := self.recovery(s))],
            "rounds": [asdict(record) for record in self.rounds],
            "apart": [asdict(trip) for trip in self.apart],
            "seconds": dict(self.seconds),
            "environment": self.environment,
        }
        return {name: _finite(value) for name, value in record.items()}


def accuracy_of(scores: Mapping[str, Score]) -> float | None:
    """The accuracy that is shown: on the validation data, on the test data where there is no other."""
    return next((scores[split].accuracy for split in ("validation", "test") if split in scores), None)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
