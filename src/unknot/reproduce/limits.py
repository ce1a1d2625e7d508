"""Values that no run of a configuration leaves: shares above 1, time that falls, words of other requests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from unknot.core.requests import Named
from unknot.experiments.config import Experiment
from unknot.experiments.scenario import Asked, LearningCurve, Point
from unknot.federation.clustered import Clustered
from unknot.federation.events import NOTHING_LEFT
from unknot.federation.scores import SPLITS
from unknot.reproduce.made import BEFORE, before_running
from unknot.reproduce.records import Record

ALIKE = 1e-6  # a record's numbers have eight digits
DIGEST = re.compile("[0-9a-f]{16}")
MADE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBERED = re.compile(r"\bclient [0-9]+\b")
SHARES = re.compile("(f1|auc|tpr|p)_[a-z]+|sees|flagged|over_forgotten")
"""What an attack comes to."""


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=ALIKE, abs_tol=ALIKE)


def beyond(experiment: Experiment, record: Record) -> str | None:
    """Why no run of its configuration leaves this; None if one may. What is not configured is not judged."""
    trace = record.trace
    found = (
        *_origin(experiment, record),
        *_columns(trace),
        *_shares(record),
        *_requests(experiment, trace),
        *_extra(experiment, record),
        *_rates(record),
    )
    return "; ".join(dict.fromkeys(found)) or None


def made_at(made: str | None) -> str | None:
    """What is wrong with when it was made; older records do not say."""
    return f"it was made at {made!r}, which is no time in UTC" if made and not MADE.fullmatch(made) else None


def _origin(experiment: Experiment, record: Record) -> Iterator[str]:
    if record.method != experiment.method.name:
        yield f"its method is {record.method!r}, and its configuration's {experiment.method.name!r}"
    if not (DIGEST.fullmatch(record.model) if record.model is not None else not record.trace.points):
        yield f"its model is {record.model!r}, which is no digest"
    if record.trace.split not in SPLITS:
        yield f"its figures are of {record.trace.split!r}, which is no data that a run is measured on"
    if record.seconds < 0:
        yield f"it took {record.seconds:g} seconds"
    if words := made_at(record.made):
        yield words


# Its course -------------------------------------------------------------------------------------


def _columns(trace: LearningCurve) -> Iterator[str]:
    """Lanes have rounds and times of their own; older records do not name them."""
    points = trace.points
    lanes: dict[str | None, list[Point]] = {}
    for point in points:
        lanes.setdefault(point.lane, []).append(point)
    if None not in lanes or _is_single(trace):
        if any(not _rises([point.round for point in some], strictly=True) for some in lanes.values()):
            yield "its rounds are not in their order"
        if not all(_rises([point.time for point in some]) for some in lanes.values()):
            yield "its time falls"
    if not _rises([point.client_epochs for point in points]):
        yield "its client_epochs fall"
    for name in ("round", "time", "client_epochs"):
        if any(getattr(point, name) < 0 for point in points):
            yield f"its {name} is below 0"


def has_lanes(experiment: Experiment, trace: LearningCurve) -> bool:
    """Whether there may be several lanes: where nothing was measured, the course does not say."""
    return trace.several or isinstance(experiment.method, Clustered)


def _is_single(trace: LearningCurve) -> bool:
    """Whether there is one lane: then no round comes twice."""
    rounds = {point.round for point in trace.points}
    return not trace.several and len(rounds) == len(trace.points)


def _rises(values: Sequence[float], strictly: bool = False) -> bool:
    return all(a < b if strictly else a <= b for a, b in pairwise(values))


def _shares(record: Record) -> Iterator[str]:
    main, trace = record.trace.main, record.trace
    values: dict[str, list[float | None]] = {
        main.name: [value for p in trace.points for value in (p.value, p.own, p.judged)],
        "before or after": [value for asked in trace.requests for value in (asked.before, asked.after)],
        "extra": [v for n, v in record.extra.items() if n.startswith("final") and not n.endswith(" loss")],
    }
    low, high = (0, 1) if main.share else (0 if main.name == "perplexity" else -math.inf, math.inf)
    for name, some in values.items():
        if wrong := [value for value in some if value is not None and not low <= value <= high]:
            yield f"{name} has {wrong[0]:g}, which is no {main.name}"


# Its requests -----------------------------------------------------------------------------------


def _requests(experiment: Experiment, trace: LearningCurve) -> Iterator[str]:
    if not _rises([asked.place for asked in trace.requests]):
        yield "its requests are not in their order"
    for number, asked in enumerate(trace.requests):
        told = f"its request {asked.request!r} has"
        if not _is_told(experiment, asked):
            yield f"{told} not the words of one that is configured"
        before, after = trace.points[: asked.place][-1:], trace.points[asked.place :][:1]
        if not _lies(asked.client_epochs, *([p.client_epochs for p in some] for some in (before, after))):
            yield f"{told} client_epochs = {asked.client_epochs:g}, which do not fit its place"
        if _is_single(trace) and not has_lanes(experiment, trace):
            if asked.place != asked.round:
                yield f"{told} round = {asked.round}, which does not fit its place, {asked.place}"
            # Of one at a time, what the next round takes may have been there before it.
            later = [] if any(request.at.time is not None for request in experiment.requests) else after
            if not _lies(asked.time, *([p.time for p in some] for some in (before, later))):
                yield f"{told} time = {asked.time:g}, which does not fit its place"
        for name, value in _measured_before(trace, number).items():
            if _differ(value, getattr(asked, name)):
                yield f"{told} {name} = {getattr(asked, name)}, and what was measured then is {value}"


def _measured_before(trace: LearningCurve, number: int) -> dict[str, float | None]:
    """What the last measurement before a request gave, or the request right before it."""
    place = trace.requests[number].place
    if number and (last := trace.requests[number - 1]).place == place:
        return {"before": last.after, "before_loss": last.after_loss}
    if not place:
        return {}
    point = trace.points[place - 1]
    return {"before": point.value, "before_loss": point.loss}


def _is_told(experiment: Experiment, asked: Asked) -> bool:
    """By number as it is configured; whom the data calls by name is not known without it."""
    said = asked.request.removesuffix(NOTHING_LEFT)
    if any(isinstance(request, Named) for request in experiment.requests) or not NUMBERED.search(said):
        return said.startswith(f"{asked.kind} ")
    return said in {str(request) for request in experiment.requests}


def _lies(value: float, before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether it lies between what was before and what comes after, and is not below 0."""
    high = all(value >= low or close(value, low) for low in (0.0, *before))
    return high and all(value <= most or close(value, most) for most in after)


def _differ(one: float | None, other: float | None) -> bool:
    """Whether both were measured, and are not the same."""
    return one is not None and other is not None and one != other and not close(one, other)


# Single figures and costs -----------------------------------------------------------------------


def _extra(experiment: Experiment, record: Record) -> Iterator[str]:
    extra, trace = record.extra, record.trace
    now = before_running(experiment)
    for name, value in extra.items():
        ends = name.startswith("final")
        if not ends and (value < 0 or (SHARES.fullmatch(name) and value > 1)):
            yield f"extra.{name} is {value:g}"
        elif name in BEFORE and value != now.get(name):
            yield f"extra.{name} is {value:g}, and by its configuration it is {now.get(name, 'none')}"
    last = trace.points[-1:] if trace.split == "test" else ()
    if trace.requests and trace.requests[-1].place == len(trace.points):
        return  # what is served at the end is what was repaired, and not measured as a round
    for name, ended in (("final", [p.value for p in last]), ("final loss", [p.loss for p in last])):
        if any(_differ(value, extra.get(name)) for value in ended):
            yield f"extra.{name} is {extra[name]:g}, and its last round's is {ended[0]:g}"


def _rates(record: Record) -> Iterator[str]:
    """What was sent and stored up to the first request is no more than that of the whole run."""
    points, asked = record.trace.points, record.trace.requests
    for kind, rates in (("rates", record.rates), ("plain", record.plain)):
        if rates is not None and (below := [name for name, value in vars(rates).items() if value < 0]):
            yield f"{kind}.{below[0]} is below 0"
    if record.rates is None or record.plain is None:
        return
    place = asked[0].place if asked else len(points)
    early, late = (max((p.round for p in some), default=0) for some in (points[:place], points))
    pairs = (
        ("bytes_sent", record.plain.bytes_sent * early, record.rates.bytes_sent * late),
        ("bytes_stored", record.plain.bytes_stored, record.rates.bytes_stored),
    )
    for name, part, whole in pairs:
        if not (close(part, whole) or (part < whole and asked)):
            yield f"its {name} up to the first request do not fit those of the whole run"
