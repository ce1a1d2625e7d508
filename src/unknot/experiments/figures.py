"""What one run of a comparison gave and cost, in plain values; and the course of several over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from typing import Any

from unknot.core.jobs import Score
from unknot.core.metrics import Metric
from unknot.experiments.courses import common, on_grid, served
from unknot.experiments.scenario import LearningCurve
from unknot.federation import Begun, History, Served

REGAINED = ("regained_rounds", "regained_seconds", "regained_client_epochs")
NO_REQUEST: dict[str, Any] = dict.fromkeys(("before", "after", *REGAINED))


def figures(history: History) -> dict[str, Any]:
    """What a run gave and cost, in plain values.

    Metrics are those of the data that is watched while training goes on (`split`), `test` is that of the
    test data at the end. Of several erasures, `before`, `after` and what it took to regain the metric are
    those of the hardest, which took the longest; all are in `requests`.
    """
    split = split_of(history)
    requests = [_request(history, asked, split) for asked in _erasures(history)]
    hardest = max(requests, key=partial(_hardness, history.metric), default=NO_REQUEST)
    costs = asdict(history.costs)
    stored = [event.costs.bytes_stored for event in history.events]
    return {
        "metric": history.metric.name,
        "split": split,
        **{name: hardest[name] for name in ("before", "after")},
        "final": _value(history.scores, split),
        "test": _value(history.scores, "test"),
        **{name: hardest[name] for name in REGAINED},
        "client_epochs_before": spent_before(history),
        "extra_training": None,
        "peak_bytes_stored": max(stored, default=0),
        "bytes_sent": costs["bytes_down"] + costs["bytes_up"],
        **costs,
        "rounds": len(history.rounds),
        "time": history.time,
        "guarantee": history.guarantee,
        "waived": history.waived,
        "warnings": history.warnings,
        "unserved": history.unserved,
        "model": None if history.model is None else history.model.digest(),
        "requests": requests,
    }


def no_figures() -> dict[str, Any]:
    """The figures of a run that could not be made."""
    empty = figures(History(Begun("", "", 0)))
    return {name: value if isinstance(value, list) else None for name, value in empty.items()}


def _erasures(history: History) -> list[Served]:
    return [asked for asked in history.served if asked.kind == "erase" and asked.clients]


def _request(history: History, asked: Served, split: str | None) -> dict[str, Any]:
    recovery = history.recovery(asked)
    regained: tuple[float | None, ...] = (None, None, None)
    if recovery is not None and recovery.reached:
        regained = (recovery.rounds, recovery.seconds, recovery.client_epochs)
    return {
        "request": asked.request,
        "round": asked.round,
        "time": asked.time,
        "before": _value(asked.before, split),
        "after": _value(asked.after, split),
        **dict(zip(REGAINED, regained, strict=True)),
    }


def _hardness(metric: Metric, request: Mapping[str, Any]) -> tuple[bool, float, float]:
    """Never regained before late before soon; then by what was lost at once."""
    seconds, before, after = (request[name] for name in ("regained_seconds", "before", "after"))
    lost = 0.0 if before is None or after is None else metric.merit(before) - metric.merit(after)
    return seconds is None, seconds or 0.0, lost


def spent_before(history: History) -> float | None:
    """Client epochs before the first erasure; of the whole run where there was none."""
    asked = _erasures(history)
    rounds = history.rounds[: asked[0].place] if asked else history.rounds
    return max((record.costs.client_epochs for record in rounds), default=None)


def split_of(history: History) -> str | None:
    """Where the metric was looked at while training went on, and recoveries are judged by."""
    seen = {split for record in history.rounds for split in record.scores} or set(history.scores)
    return next((split for split in ("validation", "test") if split in seen), None)


def _value(scores: Mapping[str, Score], split: str | None) -> float | None:
    """None where it was not measured, or is no number."""
    if split is None or split not in scores or not math.isfinite(scores[split].value):
        return None
    return scores[split].value


def requests_of(history: History | None) -> list[str]:
    return [] if history is None else [asked.request for asked in history.served] + history.unserved


def course(histories: Sequence[History], split: str | None) -> dict[str, list[float]] | None:
    """The main metric over simulated time since the first erasure: mean, least and most of the seeds."""
    courses, moments = [], []
    for history in histories:
        times = [asked.time for asked in _erasures(history)]
        zero = times[0] if times else 0.0
        steps = served(LearningCurve.of(history, split), history.metric)
        # A lane may be behind the others' time; what is served has it from when the last of them is there.
        times_on = accumulate((moment for moment, _ in steps), max)
        courses.append([(at - zero, value) for at, (_, value) in zip(times_on, steps, strict=True)])
        moments.append([moment - zero for moment in times])
    grid = common(courses, [moment for times in moments for moment in times])
    if not len(grid):
        return None
    values = [on_grid(steps, grid) for steps in courses]
    columns = list(zip(*(row.tolist() for row in values), strict=True))
    return {
        "at": grid.tolist(),
        "mean": [sum(column) / len(column) for column in columns],
        "low": [min(column) for column in columns],
        "high": [max(column) for column in columns],
        "asked": [sum(times) / len(times) for times in zip(*moments, strict=False)],
    }
