"""What a request cost the people who use the model: from a history to the figures of a paper.

For every request: the accuracy before it, right after it (round 0), and how many rounds, simulated
seconds and client epochs it took until the served model first reached each threshold. A request is
followed up to the next one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unknot.core.jobs import Score
from unknot.federation.history import History, Round, Served

WINDOW = 20
"""Rounds after a request over which its mean accuracy is taken."""


@dataclass(frozen=True)
class Point:
    """One measurement: what had been reached, and what it had cost, when a round was over."""

    round: int
    time: float
    client_epochs: float
    accuracy: float | None


@dataclass(frozen=True)
class Asked:
    """A request as it was served; `place` is the number of measurements before it."""

    request: str
    kind: str
    clients: tuple[int, ...]
    round: int
    time: float
    client_epochs: float
    before: float | None
    after: float | None
    place: int


@dataclass(frozen=True)
class Reached:
    """What it took to reach a threshold; None where it was not reached."""

    threshold: float
    rounds: int | None = None
    seconds: float | None = None
    client_epochs: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of the accuracy after one request.

    `recovering` is its mean over the next rounds (`WINDOW` of them at most), `end` the last one
    before the next request.
    """

    request: str
    kind: str
    clients: tuple[int, ...]
    round: int
    before: float | None
    after: float | None
    recovering: float | None
    end: float | None
    reached: tuple[Reached, ...]


@dataclass(frozen=True)
class Trace:
    """The accuracy of the served model over a run, and the requests in between."""

    split: str
    points: tuple[Point, ...]
    requests: tuple[Asked, ...]

    @staticmethod
    def of(history: History, split: str | None = None) -> Trace:
        """On `split`; without it on the test data, or where that was not looked at on what was."""
        seen = {name for record in history.rounds for name in record.scores}
        chosen = split or next((name for name in ("test", "validation") if name in seen), "test")
        points = tuple(
            Point(r.round, r.time, r.costs.client_epochs, _accuracy(r.scores, chosen)) for r in history.rounds
        )
        asked = tuple(
            Asked(
                request=s.request,
                kind=s.kind,
                clients=s.clients,
                round=s.round,
                time=s.time,
                client_epochs=s.costs.client_epochs,
                before=_accuracy(s.before, chosen),
                after=_accuracy(s.after, chosen),
                place=sum(not _follows(record, s) for record in history.rounds),
            )
            for s in history.served
        )
        return Trace(chosen, points, asked)

    def outcomes(self, thresholds: Sequence[float] = (), window: int = WINDOW) -> tuple[Outcome, ...]:
        return tuple(self._outcome(i, thresholds, window) for i in range(len(self.requests)))

    def curve(self) -> dict[tuple[int, int], float]:
        """Accuracy by (round, step): step 0 is the end of a round, step k right after the k-th request."""
        curve: dict[tuple[int, int], float] = {}
        done = 0
        for place, point in enumerate(self.points):
            # Lanes have rounds of their own; the furthest one says how far the federation is.
            done = max(done, point.round)
            lags = any(asked.place <= place and asked.round == done for asked in self.requests)
            if point.accuracy is not None and not lags:
                curve[done, 0] = point.accuracy
        for step, asked in enumerate(self.requests, start=1):
            if asked.before is not None:
                curve.setdefault((asked.round, 0), asked.before)
            if asked.after is not None:
                curve[asked.round, step] = asked.after
        return dict(sorted(curve.items()))

    def _outcome(self, index: int, thresholds: Sequence[float], window: int) -> Outcome:
        asked = self.requests[index]
        after = self._between(index)
        near = [a for rounds, point in after if rounds <= window and (a := point.accuracy) is not None]
        measured = [point.accuracy for _, point in after if point.accuracy is not None]
        return Outcome(
            request=asked.request,
            kind=asked.kind,
            clients=asked.clients,
            round=asked.round,
            before=asked.before,
            after=asked.after,
            recovering=sum(near) / len(near) if near else None,
            end=measured[-1] if measured else None,
            reached=tuple(_reached(asked, after, threshold) for threshold in thresholds),
        )

    def _between(self, index: int) -> list[tuple[int, Point]]:
        """The measurements from this request to the next, each with the rounds since the request."""
        asked = self.requests[index]
        end = self.requests[index + 1].place if index + 1 < len(self.requests) else len(self.points)
        found, done = [], 1
        for point in self.points[asked.place : end]:
            # A lane that lags may still be in a round before the request's: that is part of the first.
            done = max(done, point.round - asked.round)
            found.append((done, point))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Columns, not rows: a long run stays readable, and small."""
        names = ("round", "time", "client_epochs", "accuracy")
        return {
            "split": self.split,
            **{name: [getattr(point, name) for point in self.points] for name in names},
            "requests": [asdict(asked) for asked in self.requests],
        }

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Trace:
        columns = (record[name] for name in ("round", "time", "client_epochs", "accuracy"))
        return Trace(
            record["split"],
            tuple(Point(*row) for row in zip(*columns, strict=True)),
            tuple(Asked(**{**item, "clients": tuple(item["clients"])}) for item in record["requests"]),
        )


@dataclass(frozen=True)
class Rates:
    """What a run costs a round, and what it keeps: the peak of what the server stores."""

    client_epochs: float
    seconds: float
    bytes_sent: float
    bytes_stored: float

    @staticmethod
    def of(history: History, *, until_request: bool = False) -> Rates | None:
        """Over the whole run, or over its part before the first request."""
        records = history.rounds
        if until_request and history.served:
            records = [r for r in records if not _follows(r, history.served[0])]
        if not records:
            return None
        rounds = max(record.round for record in records)
        last = max((record.costs for record in records), key=lambda costs: costs.jobs)
        return Rates(
            client_epochs=last.client_epochs / rounds,
            seconds=max(record.time for record in records) / rounds,
            bytes_sent=(last.bytes_down + last.bytes_up) / rounds,
            bytes_stored=max(record.costs.bytes_stored for record in records),
        )

    def over(self, plain: Rates) -> Rates:
        """As multiples of another's, which is plain FedAvg's as a rule."""
        mine, other = asdict(self), asdict(plain)
        return Rates(**{name: mine[name] / other[name] if other[name] else float("nan") for name in mine})


@dataclass(frozen=True)
class Scenario:
    """The outcomes of a run's requests, and what the run cost a round."""

    split: str
    outcomes: tuple[Outcome, ...]
    rates: Rates | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def scenario(history: History, thresholds: Iterable[float] = (), split: str | None = None) -> Scenario:
    """What became of a run's requests."""
    trace = Trace.of(history, split)
    return Scenario(trace.split, trace.outcomes(tuple(thresholds)), Rates.of(history))


def _reached(asked: Asked, after: Sequence[tuple[int, Point]], threshold: float) -> Reached:
    if asked.after is not None and asked.after >= threshold:
        return Reached(threshold, 0, 0.0, 0.0)
    for rounds, point in after:
        if point.accuracy is not None and point.accuracy >= threshold:
            epochs = point.client_epochs - asked.client_epochs
            return Reached(threshold, rounds, point.time - asked.time, epochs)
    return Reached(threshold)


def _accuracy(scores: Mapping[str, Score], split: str) -> float | None:
    return scores[split].accuracy if split in scores else None


def _follows(record: Round, served: Served) -> bool:
    """Whether a round ended after a request: work was done in between, or at least time passed."""
    if record.costs.jobs != served.costs.jobs:
        return record.costs.jobs > served.costs.jobs
    return record.time > served.time
