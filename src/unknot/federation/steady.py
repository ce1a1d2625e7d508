"""Whether the best lane has been steady: the paper's condition for the end of clustered training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unknot.core.metrics import Metric


def settled(
    reports: Mapping[str | None, Sequence[float]], metric: Metric, window: int, deviation: float | None
) -> float | None:
    """The best lane's latest value, where that lane has been steady over its own last `window` reports.

    Its own: the best of all lanes at each report of any would have the same measurement several times over.
    `reports` are each lane's values in order, at least one a lane.
    """
    best = metric.best(values[-1] for values in reports.values())
    for values in reports.values():
        recent = values[-window:]
        if recent[-1] != best or len(recent) < window or not all(map(math.isfinite, recent)):
            continue
        if deviation is None or metric.spread(recent) <= deviation:
            return best
    return None
