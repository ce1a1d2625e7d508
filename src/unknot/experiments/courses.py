"""The course of a line over simulated time: step functions of several runs, brought onto one grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from unknot.core.metrics import Metric
from unknot.experiments.scenario import Asked, LearningCurve, Point

POINTS = 300
"""Of the grid, to which the moments of requests are added: what they did at once is shown as it was."""

Steps = Sequence[tuple[float, float]]
"""Moments, in order, and the value from then on; NaN from where there is none."""


def grid_of(traces: Sequence[LearningCurve], metric: Metric) -> NDArray[np.float64]:
    """From when every run has been measured to the end of the shortest."""
    asked = [asked.time for trace in traces for asked in trace.requests]
    return common([served(trace, metric) for trace in traces], asked)


def common(courses: Sequence[Steps], moments: Sequence[float]) -> NDArray[np.float64]:
    """A grid over the time that all courses cover, with these moments of it."""
    if not courses or not all(courses):
        return np.empty(0)
    start, end = max(steps[0][0] for steps in courses), min(steps[-1][0] for steps in courses)
    within = [moment for moment in moments if start <= moment <= end]
    return np.union1d(np.linspace(start, end, POINTS), within) if start < end else np.empty(0)


def served(trace: LearningCurve, metric: Metric) -> Steps:
    """How the served model did, and from when."""
    found = []
    for moment in _moments(trace):
        if isinstance(moment, Asked):
            value = trace.of_metric(metric, moment.after, moment.after_loss)
        else:
            value = trace.of_metric(metric, moment.value, moment.loss)
        if value is not None:
            found.append((moment.time, value))
    return found


def on_grid(steps: Steps, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value at each moment of the grid: the last one before it, or at it."""
    times, values = np.array([*steps]).reshape(-1, 2).T
    return np.concatenate([[np.nan], values])[np.searchsorted(times, grid, side="right")]


def lanes_between(
    trace: LearningCurve, metric: Metric, grid: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest of the lanes' own values.

    A lane that begins again is left out until it reports; where all do, there is what is served.
    """
    steps: dict[str, list[tuple[float, float]]] = {}
    for moment in _moments(trace):
        if isinstance(moment, Asked):
            for lane in moment.restarted:
                steps.setdefault(lane, []).append((moment.time, np.nan))
        elif moment.lane is not None:
            value = trace.of_metric(metric, moment.own, moment.own_loss)
            if value is not None:
                steps.setdefault(moment.lane, []).append((moment.time, value))
    lanes = np.array([on_grid(own, grid) for own in steps.values()])
    known = ~np.isnan(lanes)
    fallback = on_grid(served(trace, metric), grid)
    low = np.where(known, lanes, np.inf).min(axis=0)
    high = np.where(known, lanes, -np.inf).max(axis=0)
    some = known.any(axis=0)
    return np.where(some, low, fallback), np.where(some, high, fallback)


def _moments(trace: LearningCurve) -> Iterator[Point | Asked]:
    """Measurements and requests, in the order in which they came."""
    asked = list(trace.requests)
    for place, point in enumerate(trace.points):
        while asked and asked[0].place <= place:
            yield asked.pop(0)
        yield point
    yield from asked
