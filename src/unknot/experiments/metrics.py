"""How well a model does, in one number: accuracy, or perplexity, of which less is better."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOST = 100.0
"""The loss of a model that has diverged: what is not a number cannot be compared, nor written as JSON."""


@dataclass(frozen=True)
class Metric:
    """What thresholds are about, and which way is up."""

    name: str

    @property
    def falls(self) -> bool:
        """Whether less is better."""
        return self.name == "perplexity"

    def of(self, accuracy: float | None, loss: float | None) -> float | None:
        """From what was measured; None where it was not."""
        if not self.falls:
            return accuracy
        return None if loss is None else math.exp(loss)

    def reached(self, value: float | None, threshold: float) -> bool:
        if value is None:
            return False
        return value <= threshold if self.falls else value >= threshold

    def best(self, values: Iterable[float]) -> float:
        return min(values) if self.falls else max(values)

    def spread(self, values: Sequence[float]) -> float:
        """Population deviation; of perplexities that of their logarithms, so that 0.01 is 1 %."""
        return statistics.pstdev(map(math.log, values) if self.falls else values)


ACCURACY = Metric("accuracy")
METRICS = {metric.name: metric for metric in (ACCURACY, Metric("perplexity"))}


def finite(loss: float) -> float:
    return min(loss, LOST) if math.isfinite(loss) else LOST
