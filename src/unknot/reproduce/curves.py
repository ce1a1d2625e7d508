"""The curves of a line: accuracy over rounds, or over simulated seconds, with a band."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unknot.core.metrics import Metric
from unknot.experiments.courses import grid_of, lanes_between, on_grid, served
from unknot.reproduce.cases import Pair, by_seed


@dataclass(frozen=True)
class Curve:
    """Mean accuracy over the rounds (or simulated seconds), and the least and greatest of the seeds.

    Over time, where there are several lanes: the least and greatest of theirs, mean over the seeds.
    """

    at: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curve_over_rounds(pairs: Sequence[Pair], metric: Metric) -> Curve:
    curves = {run.key: record.trace.curve(metric) for run, record in pairs}
    places = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    columns = [by_seed(pairs, {key: curve[place] for key, curve in curves.items()}) for place in places]
    values = [[value for value in column.values() if value is not None] for column in columns]
    return Curve(
        at=tuple(round_ for round_, _ in places),
        mean=tuple(statistics.fmean(column) for column in values),
        low=tuple(min(column) for column in values),
        high=tuple(max(column) for column in values),
    )


def curve_over_time(pairs: Sequence[Pair], metric: Metric, lanes: bool) -> Curve:
    """Over simulated time, on a grid that all runs share."""
    grid = grid_of([record.trace for _, record in pairs], metric)
    if not len(grid):
        return Curve((), (), (), ())

    def seeds(rows: Mapping[str, Sequence[float]]) -> list[list[float]]:
        """For each moment, a value a seed."""
        columns = [by_seed(pairs, {key: row[i] for key, row in rows.items()}) for i in range(len(grid))]
        return [[value for value in column.values() if value is not None] for column in columns]

    values = seeds({run.key: on_grid(served(r.trace, metric), grid).tolist() for run, r in pairs})
    low = high = values
    if lanes:
        bounds = {run.key: lanes_between(record.trace, metric, grid) for run, record in pairs}
        low, high = (seeds({key: part[i].tolist() for key, part in bounds.items()}) for i in (0, 1))
    least, greatest = (statistics.fmean, statistics.fmean) if lanes else (min, max)
    return Curve(
        at=tuple(grid.tolist()),
        mean=tuple(statistics.fmean(column) for column in values),
        low=tuple(least(column) for column in low),
        high=tuple(greatest(column) for column in high),
    )
