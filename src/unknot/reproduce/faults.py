"""What a record has that no run of its own configuration leaves: its requests, length, figures, guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from unknot.core.errors import ConfigError
from unknot.core.requests import Join, Moment, Named, Request
from unknot.experiments.config import Experiment
from unknot.experiments.scenario import Asked, LearningCurve, Point, Rates
from unknot.federation import Length
from unknot.federation.clustered import JOINT
from unknot.federation.promise import Uncovered
from unknot.reproduce.limits import ALIKE, beyond, close, has_lanes
from unknot.reproduce.records import Record

TAKEN = ("memory", "peak", "audit_seconds")  # single figures that are of the machine
SAID = 2  # requests that are named


def fault(record: Record) -> str | None:
    """Why it is not the record of a run of its configuration, or not of one of today; None if it may be.

    Nothing is run: a run that ends by a rule of its own may end anywhere, and a round may last for long.
    """
    try:
        experiment = Experiment.of({key: part for key, part in record.config.items() if key != "audit"})
    except ConfigError:
        return None  # of another day; that it fits no run of today is told elsewhere
    trace = record.trace
    found = (_requests(experiment, trace), _length(experiment, trace), _costs(record))
    return "; ".join(filter(None, found)) or beyond(experiment, record) or _guarantee(experiment, record)


def results(record: Record) -> tuple[object, ...]:
    """What another run of the same configuration gives again; what it took of a machine is left out."""
    extra = {name: value for name, value in record.extra.items() if name not in TAKEN}
    return record.trace, extra, record.rates, record.plain, record.model


# Requests ---------------------------------------------------------------------------------------


def _requests(experiment: Experiment, trace: LearningCurve) -> str | None:
    """What was configured and not served, and what was served and not configured."""
    left, several = list(experiment.requests), has_lanes(experiment, trace)
    waits = several or experiment.method.takes_leave
    strange = []
    for asked, gone in zip(trace.requests, _gone(experiment, trace), strict=True):
        mine = next((r for r in left if _is(r, asked, experiment.requests, several, waits, gone)), None)
        if mine is None:
            strange.append(f"{asked.kind} {_called(asked.clients)} (round {asked.round}, {asked.time:g} s)")
        else:
            left.remove(mine)
    over = _deserted(experiment, trace) or not trace.points  # a profile may outlast a run
    comes = [] if over else [r for r in left if _comes(r.at, experiment.length)]
    lacking = [f"{r} ({r.at})" for r in comes]
    said = [(lacking, "it lacks the request"), (strange, "it has a request that is not configured:")]
    return "; ".join(f"{words} {_some(some)}" for some, words in said if some) or None


def _is(
    request: Request | Named,
    asked: Asked,
    every: Sequence[Request | Named],
    several: bool,
    waits: bool,
    gone: bool,
) -> bool:
    """Whether this was asked.

    Where there are several lanes, one may be further when it is served; a last visit takes time, too, and so
    do profiles. Nobody waits for a round where everybody had gone before.
    """
    kind, clients = _named(request)
    if kind != asked.kind:
        return False
    if request.at.time is not None:
        if not close(asked.time, request.at.time) and not (waits and asked.time > request.at.time):
            return False
    elif (asked.round < (at := request.at.round or 0) and not gone) or (asked.round > at and not several):
        return False
    if any(isinstance(client, str) for client in clients):
        return len(asked.clients) <= len(clients)  # the data alone knows who is called so
    # What another request has done before is left out.
    others = {client for other in every if other is not request for client in _named(other)[1]}
    return clients - others <= set(asked.clients) <= clients


def _named(request: Request | Named) -> tuple[str, set[int | str]]:
    if isinstance(request, Named):
        return request.kind, {client for client, _ in request.clients}
    if isinstance(request, Join):
        return "join", set(request.clients)
    return "erase", {target.client for target in request.targets}


def _comes(at: Moment, length: Length) -> bool:
    """Whether every run of this length gets to this moment."""
    if length.target is not None or (length.rounds is not None and length.seconds is not None):
        return False
    if at.time is not None:
        return length.seconds is not None and at.time < length.seconds
    return length.rounds is not None and (at.round or 0) < length.rounds


def _called(clients: Sequence[int]) -> str:
    return ", ".join(f"client {client}" for client in clients) or "nobody"


def _some(told: Sequence[str]) -> str:
    more = len(told) - SAID
    return ", ".join(told[:SAID]) + (f" and {more} more" if more > 0 else "")


# Length and costs -------------------------------------------------------------------------------


def _length(experiment: Experiment, trace: LearningCurve) -> str | None:
    length, points = experiment.length, trace.points
    done, time = (max((getattr(point, name) for point in points), default=0) for name in ("round", "time"))
    if lost := sorted(set(range(1, done + 1)) - {point.round for point in points}):
        return f"it lacks {len(lost)} of its {done} rounds"
    joined = getattr(experiment.method, "served", "") == JOINT  # by rounds that come when a run is over
    if length.seconds is not None and time > length.seconds * (1 + ALIKE) and not joined:
        return f"it goes on to {time:g} of {length.seconds:g} seconds"
    if length.rounds is None:
        return None
    # Lanes that rest are led on to where a request at a time finds them.
    if done > length.rounds and not _timed(experiment.requests):
        return f"it goes on to round {done} of {length.rounds}"
    if done < length.rounds and length.seconds is None and length.target is None:
        return None if _deserted(experiment, trace) else f"it ends after {done} of {length.rounds} rounds"
    return None


def _deserted(experiment: Experiment, trace: LearningCurve) -> bool:
    """Whether a request left nobody to train, as a run ends then.

    Where the data alone knows who was there: whether an erasure is the last that happened.
    """
    left = _left(experiment, trace)
    if left is None:
        last = trace.requests[-1:]
        return any(asked.kind == "erase" and asked.place == len(trace.points) for asked in last)
    return any(not some for some in left)


def _gone(experiment: Experiment, trace: LearningCurve) -> list[bool]:
    """Of each request, whether everybody had gone before it; True where nobody knows who was there."""
    left = _left(experiment, trace)
    if left is None:
        return [True] * len(trace.requests)
    return [not some for some in [{0}, *left][: len(trace.requests)]]


def _left(experiment: Experiment, trace: LearningCurve) -> list[set[int]] | None:
    """Who is there after each request; None where the data alone knows who was at the start."""
    clients = getattr(experiment.data.partition, "clients", None)
    if clients is None:
        return None
    late = {c for r in experiment.requests if isinstance(r, Join) for c in r.clients}
    there, found = set(range(clients)) - late, []
    for asked in trace.requests:
        there = there - set(asked.clients) if asked.kind == "erase" else there | set(asked.clients)
        found.append(there)
    return found


def _costs(record: Record) -> str | None:
    """What it cost a round, over all of its rounds and up to the first request, is of its own rounds."""
    points, asked = record.trace.points, record.trace.requests
    before = points[: asked[0].place] if asked else points
    if all(_fit(rates, some) for rates, some in ((record.rates, points), (record.plain, before))):
        return None
    return "its costs a round are not those of its rounds"


def _fit(rates: Rates | None, points: Sequence[Point]) -> bool:
    if rates is None or not points:
        return (rates is None) == (not points)
    rounds = max(point.round for point in points)
    return all(
        close(getattr(rates, rate) * rounds, max(getattr(point, name) for point in points))
        for rate, name in (("seconds", "time"), ("client_epochs", "client_epochs"))
    )


# Guarantee --------------------------------------------------------------------------------------


def _guarantee(experiment: Experiment, record: Record) -> str | None:
    """What is promised is said with a run, and may have been found to be too much since."""
    if experiment.model.initial is not None:
        return None  # it depends on who shaped that
    setup, length, asked = experiment.setup, experiment.length, record.trace.requests
    uncovered = Uncovered(
        erased=any(served.kind == "erase" and served.clients for served in asked),
        timed=length.seconds is not None or _timed(experiment.requests),
        judged="" if length.target is None else record.trace.main.name,
    )
    today = uncovered.of(experiment.method, setup.select, setup.pace)
    if record.guarantee == today:
        return None
    return f"its guarantee is {record.guarantee!r}, and today's is {today!r}"


def _timed(requests: Sequence[Request | Named]) -> bool:
    """Whether any comes at a time, and not at a round."""
    return any(request.at.time is not None for request in requests)
