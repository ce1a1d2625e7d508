"""What a line's runs measured, by run: what claims are about, and until when it was looked for."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from unknot.core.jobs import Score
from unknot.core.metrics import Metric, finite
from unknot.experiments.courses import served
from unknot.experiments.scenario import Outcome, Reached
from unknot.reproduce.cases import Pair, by_seed
from unknot.reproduce.parts import ARRIVALS, EXPOSURES, FOOTPRINTS, MEASURES, WHOLE
from unknot.reproduce.records import Record


def measured(
    pairs: Sequence[Pair], outcomes: Mapping[str, Sequence[Outcome]], metric: Metric
) -> dict[str, dict[str, float | None]]:
    """What claims are about, by name and run; accuracies are means over the departures of a run."""
    values: dict[str, dict[str, float | None]] = {name: {} for name in MEASURES if name != "speedup"}
    for run, record in pairs:
        left = [outcome for outcome in outcomes[run.key] if outcome.kind == "erase"]
        values["recovering"][run.key] = _mean([outcome.recovering for outcome in left])
        values["recovered"][run.key] = _mean([outcome.recovered for outcome in left])
        values["before"][run.key] = _mean([outcome.before for outcome in left])
        values["throughout"][run.key] = _mean([outcome.throughout for outcome in left])
        values["first"][run.key] = _mean([outcome.after for outcome in left])
        values["drop"][run.key] = _mean([_less(outcome.before, outcome.after) for outcome in left])
        values["end"][run.key] = _mean([outcome.end for outcome in left])
        values["rise"][run.key] = _mean([_less(outcome.end, outcome.before) for outcome in left])
        joined = [outcome for outcome in outcomes[run.key] if outcome.kind == "join"]
        values["join_rise"][run.key] = _mean([_less(outcome.worst, outcome.before) for outcome in joined])
        first = left[0].reached[0] if left and left[0].reached else None
        for name in ("rounds", "seconds", "kept", "stopped", "aggregated"):
            values[name][run.key] = getattr(first, name, None)
        for name, passed in (("total", values["seconds"][run.key]), ("finished", values["stopped"][run.key])):
            values[name][run.key] = None if passed is None else left[0].time + passed
        values["earliest"][run.key] = _earliest(record, metric, first)
        values["ids"][run.key] = record.extra.get("ids")
        values["final"][run.key] = _final(record, record.history.scores, metric)
        for name in (*EXPOSURES, *FOOTPRINTS):
            values[name][run.key] = record.extra.get(name)
        kept = ratio(record.extra.get("f1_after"), record.extra.get("f1_before"))
        values["f1_fall"][run.key] = None if kept is None else 1 - kept
    return values


def _earliest(record: Record, metric: Metric, reached: Reached | None) -> float | None:
    """When the first threshold was reached first, whether before the request or after it."""
    if reached is None:
        return None
    there = (time for time, value in served(record.trace, metric) if metric.reached(value, reached.threshold))
    return next(there, None)


def ends_of(pairs: Sequence[Pair]) -> dict[str, dict[str, float | None]]:
    """By measure and run, until when it went on after the first leave; None where nobody leaves."""
    ends: dict[str, dict[str, float | None]] = {name: {} for name in ARRIVALS}
    for run, record in pairs:
        leave = leave_of(record)
        own: dict[str, float | None] = dict.fromkeys(ARRIVALS)
        if leave is not None:
            rounds, seconds = record.trace.lasted(leave)
            whole = record.trace.requests[leave].time + seconds
            own |= {
                **dict.fromkeys(ARRIVALS, seconds),
                "rounds": float(rounds),
                **dict.fromkeys(WHOLE, whole),
            }
        for name, found in ends.items():
            found[run.key] = own[name]
    return ends


def leave_of(record: Record) -> int | None:
    """Which of the requests is the first leave."""
    return next((i for i, asked in enumerate(record.trace.requests) if asked.kind == "erase"), None)


def watched(record: Record) -> float | None:
    leave = leave_of(record)
    return None if leave is None else record.trace.watched(leave)


def brief_in(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Seeds in which there were fewer reports after the first leave than KNOT's stopping rule looks at."""
    brief = {run.seed for run, record in pairs if leave_of(record) is not None and watched(record) is None}
    return tuple(sorted(brief))


def spared_in(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Seeds in which no cluster began again, where some did in others: older records do not say which."""
    spared = {
        run.seed
        for run, record in pairs
        if record.trace.several
        and (leave := leave_of(record)) is not None
        and not record.trace.requests[leave].restarted
    }
    return tuple(sorted(spared)) if len(spared) < len({run.seed for run, _ in pairs}) else ()


def choices_of(pairs: Sequence[Pair], metric: Metric) -> dict[str, dict[int, float | None]]:
    """How each model that could have been served did in the end, by seed."""
    names = dict.fromkeys(name for _, record in pairs for name in record.history.choices)
    return {
        name: by_seed(
            pairs, {r.key: _final(one, one.history.choices.get(name, {}), metric) for r, one in pairs}
        )
        for name in names
    }


def _final(record: Record, scores: Mapping[str, Score], metric: Metric) -> float | None:
    """How a model did in the end, on test data."""
    if "test" not in scores:
        return None
    return record.trace.of_metric(metric, scores["test"].value, finite(scores["test"].loss))


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def _less(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
