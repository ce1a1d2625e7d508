"""What a request cost the people who use the model: from a history to the figures of a paper.

For every request: the accuracy (or another metric) before it, right after it (round 0), and how many
rounds, simulated seconds and client epochs it took until the served model first reached each threshold;
when it was there for good; and when the rule by which KNOT's authors stop was met. A request is followed up
to the next one only. Where less of the metric is better, "reached" means at most.

The rule (section III, "Criteria for terminating the training session"): as soon as the highest *validation*
accuracy across clusters is above one threshold, and the standard deviation over a recent history of them
below another, training ends, and one last aggregation over the clusters gives the model. The paper has no
values for any of it, nor does it say whose history. Ours: the target that is asked for is the first
threshold, `STEADY_DEVIATION` the second, the last `STEADY_WINDOW` reports of the best cluster itself are the
recent history; it begins anew with a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, Metric, finite, perplexity
from unknot.federation.events import Round
from unknot.federation.history import History
from unknot.federation.steady import settled

WINDOW = 20
"""Rounds after a request over which its mean accuracy is taken."""
STEADY_WINDOW = 5
"""Reports over which the best lane must be steady for the stopping rule to be met: ours."""
STEADY_DEVIATION = 0.01
"""The most that its standard deviation may be over them: ours, too."""


@dataclass(frozen=True)
class Point:
    """One measurement: what had been reached, and what it had cost, when a round was over.

    `value` is the main metric's, as a rule accuracy. `round` is the lane's own count. Where there are
    several lanes, `lane` says which, and `own` is the value of its own model. `judged` is what the stopping
    rule goes by: the lane's own model, or the served one of a single lane, on validation data.
    """

    round: int
    time: float
    client_epochs: float
    value: float | None
    loss: float | None = None
    lane: str | None = None
    own: float | None = None
    own_loss: float | None = None
    judged: float | None = None
    judged_loss: float | None = None


@dataclass(frozen=True)
class Asked:
    """A request as it was served; `place` is the number of measurements before it.

    `round` is the count of the lanes that it concerns. `restarted` names the lanes whose models were
    given up, where there are several.
    """

    request: str
    kind: str
    clients: tuple[int, ...]
    round: int
    time: float
    client_epochs: float
    before: float | None
    after: float | None
    place: int
    before_loss: float | None = None
    after_loss: float | None = None
    restarted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reached:
    """What it took to reach a threshold; None where it was not reached.

    `kept` is the seconds until it was reached for good: until the end, or the next request. `stopped`
    is the seconds until the stopping rule was met: the best lane's own model is there on validation data, and
    was steady; `aggregated` is how what was served just then did, which is the last aggregation over the
    clusters where their mean is served.
    """

    threshold: float
    rounds: int | None = None
    seconds: float | None = None
    client_epochs: float | None = None
    kept: float | None = None
    stopped: float | None = None
    aggregated: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of the accuracy (or another metric) after one request.

    `recovering` is its mean over the next rounds (`WINDOW` of them at most), `recovered` the last of these,
    `throughout` its mean until the next request, `worst` the worst and `end` the last one before that. `at`
    is where the request lies on the curve: the round of the furthest lane.
    """

    request: str
    kind: str
    clients: tuple[int, ...]
    round: int
    at: int
    time: float
    before: float | None
    after: float | None
    recovering: float | None
    recovered: float | None
    throughout: float | None
    worst: float | None
    end: float | None
    reached: tuple[Reached, ...]


@dataclass(frozen=True)
class Since:
    """A measurement after a request: the most rounds that any one lane has had since, and the seconds."""

    rounds: int
    seconds: float
    point: Point


@dataclass(frozen=True)
class Steady:
    """A moment at which the best lane was steady: seconds after a request, how it did, what was served."""

    seconds: float
    best: float
    served: float | None


@dataclass(frozen=True)
class LearningCurve:
    """The main metric of the served model over a run, and the requests in between."""

    split: str
    points: tuple[Point, ...]
    requests: tuple[Asked, ...]
    main: Metric = ACCURACY

    @staticmethod
    def of(history: History, split: str | None = None) -> LearningCurve:
        """On `split`; without it on the test data, or where that was not looked at on what was."""
        seen = {name for record in history.rounds for name in record.scores}
        chosen = split or next((name for name in ("test", "validation") if name in seen), "test")
        several = len({record.lane for record in history.rounds}) > 1
        points = tuple(_point(record, chosen, several) for record in history.rounds)
        asked = tuple(
            Asked(
                request=history.told(s),
                kind=s.kind,
                clients=s.clients,
                round=s.round,
                time=s.time,
                client_epochs=s.costs.client_epochs,
                before=_value(s.before, chosen),
                after=_value(s.after, chosen),
                place=s.place,
                before_loss=_loss(s.before, chosen),
                after_loss=_loss(s.after, chosen),
                restarted=s.restarted if several else (),
            )
            for s in history.served
        )
        return LearningCurve(chosen, points, asked, history.metric)

    def of_metric(self, metric: Metric, value: float | None, loss: float | None) -> float | None:
        """From what was measured; None where it was not, or says nothing of this metric."""
        if metric.name == self.main.name:
            return value
        if loss is None or metric.name not in ("perplexity", "loss"):
            return None
        return perplexity(loss) if metric.name == "perplexity" else loss

    @property
    def several(self) -> bool:
        """Whether there are lanes with models of their own."""
        return any(point.own is not None for point in self.points)

    @property
    def judged(self) -> bool:
        """Whether anything was measured that the stopping rule can go by; older records have nothing."""
        return any(point.judged is not None for point in self.points)

    def outcomes(
        self, thresholds: Sequence[float] = (), window: int = WINDOW, metric: Metric | None = None
    ) -> tuple[Outcome, ...]:
        """What each request did, by a metric, the main one where none is named."""
        chosen = metric or self.main
        return tuple(self._outcome(i, thresholds, window, chosen) for i in range(len(self.requests)))

    def lasted(self, index: int) -> tuple[int, float]:
        """For how many rounds and seconds the run went on after a request, until the next or its end."""
        after = self._between(index)
        return (after[-1].rounds, after[-1].seconds) if after else (0, 0.0)

    def watched(self, index: int) -> float | None:
        """Seconds after a request until a lane had as many reports as the stopping rule looks at."""
        reports: Counter[str | None] = Counter()
        for since in self._between(index):
            if since.point.judged is not None:
                reports[since.point.lane] += 1
                if reports[since.point.lane] >= STEADY_WINDOW:
                    return since.seconds
        return None

    def curve(self, metric: Metric | None = None) -> dict[tuple[int, int], float]:
        """The metric by (round, step): step 0 is the end of a round, step k right after the k-th request."""
        metric = metric or self.main
        curve: dict[tuple[int, int], float] = {}
        done = 0
        places = [self._furthest(asked) for asked in self.requests]
        for place, point in enumerate(self.points):
            # Lanes have rounds of their own; the furthest one says how far the federation is.
            done = max(done, point.round)
            lags = any(a.place <= place and at == done for a, at in zip(self.requests, places, strict=True))
            value = self.of_metric(metric, point.value, point.loss)
            if value is not None and not lags:
                curve[done, 0] = value
        for step, (asked, at) in enumerate(zip(self.requests, places, strict=True), start=1):
            before, after = (
                self.of_metric(metric, asked.before, asked.before_loss),
                self.of_metric(metric, asked.after, asked.after_loss),
            )
            if before is not None:
                curve.setdefault((at, 0), before)
            if after is not None:
                curve[at, step] = after
        return dict(sorted(curve.items()))

    def _furthest(self, asked: Asked) -> int:
        """The rounds of the lane that had the most when a request came."""
        return max((point.round for point in self.points[: asked.place]), default=0)

    def _outcome(self, index: int, thresholds: Sequence[float], window: int, metric: Metric) -> Outcome:
        asked = self.requests[index]
        after = [
            (since, self.of_metric(metric, since.point.value, since.point.loss))
            for since in self._between(index)
        ]
        measured = [(since.rounds, value) for since, value in after if value is not None]
        near = [value for rounds, value in measured if rounds <= window]
        first = self.of_metric(metric, asked.after, asked.after_loss)
        steady = self._steady(index, metric)
        return Outcome(
            request=asked.request,
            kind=asked.kind,
            clients=asked.clients,
            round=asked.round,
            at=self._furthest(asked),
            time=asked.time,
            before=self.of_metric(metric, asked.before, asked.before_loss),
            after=first,
            recovering=sum(near) / len(near) if near else None,
            recovered=near[-1] if near else None,
            throughout=sum(value for _, value in measured) / len(measured) if measured else None,
            worst=min((value for _, value in measured), key=metric.merit) if measured else None,
            end=measured[-1][1] if measured else None,
            reached=tuple(
                Reached(
                    threshold,
                    *_first(asked, first, after, threshold, metric),
                    kept=_kept(first, after, threshold, metric),
                    stopped=stop.seconds if (stop := _stop(steady, threshold, metric)) else None,
                    aggregated=stop.served if stop else None,
                )
                for threshold in thresholds
            ),
        )

    def _steady(self, index: int, metric: Metric) -> list[Steady]:
        """At which reports, of any lane, the best lane was steady after a request, on validation data."""
        reports: dict[str | None, list[float]] = {}
        found = []
        for since in self._between(index):
            p = since.point
            value = self.of_metric(metric, p.judged, p.judged_loss)
            if value is None:
                continue
            reports.setdefault(p.lane, []).append(value)
            best = settled(reports, metric, STEADY_WINDOW, STEADY_DEVIATION)
            if best is not None:
                found.append(Steady(since.seconds, best, self.of_metric(metric, p.value, p.loss)))
        return found

    def _between(self, index: int) -> list[Since]:
        """The measurements from this request to the next."""
        asked = self.requests[index]
        end = self.requests[index + 1].place if index + 1 < len(self.requests) else len(self.points)
        found: list[Since] = []
        furthest, done, seconds = self._furthest(asked), 1, 0.0
        by_lane: Counter[str] = Counter()
        for point in self.points[asked.place : end]:
            if point.lane is None:  # one lane, or an older record, in which lanes have no names
                done = max(done, point.round - furthest)
            else:
                by_lane[point.lane] += 1
                done = max(by_lane.values())
            # A lane may be behind the others' time: what is reached is there when the last of them is.
            seconds = max(seconds, point.time - asked.time)
            found.append(Since(done, seconds, point))
        return found


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
            records = records[: history.served[0].place]
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
    metric: str = ACCURACY.name

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def scenario(history: History, thresholds: Iterable[float] = (), split: str | None = None) -> Scenario:
    """What became of a run's requests."""
    trace = LearningCurve.of(history, split)
    outcomes = trace.outcomes(tuple(thresholds))
    return Scenario(trace.split, outcomes, Rates.of(history), history.metric.name)


After = Sequence[tuple[Since, float | None]]
"""The measurements that follow a request, each with its value by the metric."""


def _first(
    asked: Asked, first: float | None, after: After, threshold: float, metric: Metric
) -> tuple[int | None, float | None, float | None]:
    """Rounds, seconds and client epochs until the threshold was first reached."""
    if metric.reached(first, threshold):
        return 0, 0.0, 0.0
    for since, value in after:
        if metric.reached(value, threshold):
            return since.rounds, since.seconds, since.point.client_epochs - asked.client_epochs
    return None, None, None


def _kept(first: float | None, after: After, threshold: float, metric: Metric) -> float | None:
    """Seconds until the threshold was reached and not lost again."""
    reached = 0.0 if metric.reached(first, threshold) else None
    for since, value in after:
        if value is not None and not metric.reached(value, threshold):
            reached = None
        elif value is not None and reached is None:
            reached = since.seconds
    return reached


def _stop(steady: Sequence[Steady], threshold: float, metric: Metric) -> Steady | None:
    """When the stopping rule was first met."""
    return next((moment for moment in steady if metric.reached(moment.best, threshold)), None)


def _point(record: Round, split: str, several: bool) -> Point:
    return Point(
        record.round,
        record.time,
        record.costs.client_epochs,
        _value(record.scores, split),
        _loss(record.scores, split),
        record.lane if several else None,
        _value(record.own, split),
        _loss(record.own, split),
        _value(record.own or record.scores, "validation"),
        _loss(record.own or record.scores, "validation"),
    )


def _value(scores: Mapping[str, Score], split: str) -> float | None:
    return scores[split].value if split in scores else None


def _loss(scores: Mapping[str, Score], split: str) -> float | None:
    return finite(scores[split].loss) if split in scores else None
