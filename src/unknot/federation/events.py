"""What happens in a run: rounds and requests, what they cost, who was at work. Plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from unknot.core.jobs import Score

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
    """The request in words; a run that is kept has clients by number here: `told` calls them by name."""
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


Event = Round | Served


_NUMBERED = re.compile(r"client ([0-9]+)")
_WHO = rf"(?:[0-9]+ samples? of )?{_NUMBERED.pattern}"
_BY_NUMBER = re.compile(rf"(?:erase|join) {_WHO}(?:, {_WHO})*(?:{re.escape(NOTHING_LEFT)})?")


def told(served: Served, names: Mapping[int, str] | None = None) -> str:
    """A request in words; whom it calls by number has a name, where there is one here.

    Without `names`, they are those that the event knows of who stays.
    """
    there = _who_stays(served) if names is None else names
    if not _is_by_number(served, there):
        return served.request
    return _NUMBERED.sub(lambda found: there.get(int(found[1]), found[0]), served.request)


def _who_stays(served: Served) -> dict[int, str]:
    known: Mapping[int, str] = getattr(served.clients, "names", {})
    return {c: known[c] for c in served.clients if c in known and c not in served.leavers}


def _is_by_number(served: Served, names: Mapping[int, str]) -> bool:
    """Whether a request calls clients by number: some are called ``client 3``, and have another number."""
    if not _BY_NUMBER.fullmatch(served.request):
        return False
    if not served.clients:
        return not any(map(_NUMBERED.fullmatch, names.values()))
    said = map(int, _NUMBERED.findall(served.request))
    return all(client in said for client in served.clients)  # in their order


def value_of(scores: Mapping[str, Score], metric: str | None = None) -> float | None:
    """A metric, or the main one: on the validation data, on the test data where there is no other."""
    score = next((scores[split] for split in ("validation", "test") if split in scores), None)
    if score is None:
        return None
    return score.value if metric is None else score.metrics.get(metric)
