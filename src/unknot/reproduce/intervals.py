"""Intervals for means over seeds and for shares of draws: what a difference may be without being one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from unknot.experiments.seeds import mean

LEVEL = 0.95
T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t at 97.5 %, by degrees of freedom from 1."""
Z = 1.95996
HAIR = 1e-9
"""Less than that is rounding, of figures in points, rounds and seconds."""


@dataclass(frozen=True)
class Interval:
    """A mean over `n` seeds and its 95 % interval (Student's t); of one seed there is none.

    Where the mean is not finite, the interval is everything.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @staticmethod
    def of(values: Sequence[float]) -> Interval:
        middle, n = _rounded(mean(values)), len(values)
        if n == 1:
            return Interval(middle, None, None, 1)
        if not math.isfinite(middle):
            return Interval(middle, -math.inf, math.inf, n)
        half = _rounded(student(n - 1) * statistics.stdev(values) / math.sqrt(n))
        return Interval(middle, middle - half, middle + half, n)

    @property
    def sign(self) -> int:
        """1 or -1 where 0 lies outside the interval, else 0. Of one seed: that of its value."""
        low, high = (self.mean, self.mean) if self.low is None or self.high is None else (self.low, self.high)
        return (low > 0) - (high < 0)


def student(freedom: int) -> float:
    """Student's t at 97.5 %; beyond the table by the first terms of its series in 1 / freedom."""
    if freedom <= len(T):
        return T[freedom - 1]
    first, second = (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    third = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    return float(Z + (first + (second + third / freedom) / freedom) / freedom)


def _rounded(value: float) -> float:
    return 0.0 if abs(value) < HAIR else value


def share(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of which `count` of `n` draws were seen."""
    p, weight = count / n, Z * Z / n
    middle = p + weight / 2
    half = Z * math.sqrt(p * (1 - p) / n + weight / (4 * n))
    return (middle - half) / (1 + weight), (middle + half) / (1 + weight)
