"""What it takes to get back, after a request, to how well the served model did before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.metrics import Metric
from unknot.federation.events import Round, Served, value_of

REGAINED = 0.99
"""The share of the main metric before an erasure at which it counts as regained."""


@dataclass(frozen=True)
class Recovery:
    """What it took, after a request, to have regained `fraction` of the main metric before it.

    `target` is what counts as that: see `Metric.regained`. `rounds` is the most that any one lane made.
    """

    request: str
    fraction: float
    target: float
    reached: bool
    rounds: int
    seconds: float
    client_epochs: float

    @staticmethod
    def after(served: Served, later: Sequence[Round], metric: Metric, fraction: float) -> Recovery | None:
        """From a request and the rounds after it; None where nothing had been measured before."""
        before = value_of(served.before)
        if before is None:
            return None
        target = metric.regained(before, fraction)
        reached, taken = metric.reached(value_of(served.after), target), 0
        while not reached and taken < len(later):
            reached, taken = metric.reached(later[taken].value, target), taken + 1
        by_lane = Counter(record.lane for record in later[:taken])
        # A lane may be behind the others' time: what is reached is there when the last of them is.
        seconds = max((record.time - served.time for record in later[:taken]), default=0.0)
        epochs = later[taken - 1].costs.client_epochs - served.costs.client_epochs if taken else 0.0
        return Recovery(
            request=served.request,
            fraction=fraction,
            target=target,
            reached=reached,
            rounds=max(by_lane.values(), default=0),
            seconds=max(seconds, 0.0),
            client_epochs=epochs,
        )
