"""The test behind a verdict: where does the served model's statistic stand among those of its controls?

Controls are trained as the served model was, without the erased data and with other seeds. If the erased
data left no trace, the served model is one more of them: with K controls the chance that its statistic is
the oddest of all K + 1 is 1/(K + 1), whatever the statistic, the model and the noise of training.

A statistic is odd if it lies far from the others, on either side: its *deviation* is how many standard
deviations of the other K it lies from their mean. What is best to see that data still shows need not be best
to see that too much was forgotten: an attack may have one more for the one side. Several are one test: a
model is as odd as its oddest statistic (Westfall and Young's max-T), so that asking twice does not double the
false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError

LEVEL = 0.05
ROUNDING = 1e-14  # of the largest value: values that differ by less are the same
TIED = 1e-9  # of a deviation: a control that is so close is as odd
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankTest:
    """A model among its controls, by one or several statistics."""

    deviations: Values
    """``[1 + K, attacks]``, the tested model's first: above 0 if it remembers more than the others, below
    if less; where both are odd, the odder; 0 where neither is."""
    p: tuple[float, ...]
    """For each statistic, how often chance alone would find one of them so odd; all of them together
    raise a false alarm no more often than the smallest of these says."""
    critical: float
    """The deviation beyond which the tested model is told from its controls."""

    def found(self, place: int, level: float = LEVEL) -> str | None:
        """By one statistic: "still shows", "over-forgotten", or None where it is like the controls."""
        if self.p[place] > level:
            return None
        return "still shows" if self.deviations[0, place] > 0 else "over-forgotten"


def check_level(controls: int, level: float) -> None:
    """Asked before a long run rather than after it."""
    if not 0 < level < 1:
        raise ConfigError(f"the level is a chance of a false alarm, between 0 and 1; not {level}")
    least = math.ceil(1 / level - 1e-9) - 1
    if controls < max(least, 3):
        models = max(controls, 0) + 1
        raise ConfigError(
            f"a level of {100 * level:g} % needs at least {max(least, 3)} controls, not {controls}: "
            f"the oddest of {models} models is odd by chance in {100 / models:.3g} % of cases"
        )


def rank_test(
    tested: ArrayLike,
    controls: ArrayLike,
    level: float = LEVEL,
    *,
    both: tuple[ArrayLike, ArrayLike] | None = None,
) -> RankTest:
    """Rank a model's statistics ``[statistics]`` among those of its controls ``[K, statistics]``.

    A single statistic may be given as a number and a row. Where others are given as `both`, of the tested
    model and of the controls, these are odd on either side, and the first ones if high alone.
    """
    check_level(len(np.asarray(controls)), level)
    rows = _rows(tested, controls)
    high = _deviations(rows)
    beneath = high if both is None else _deviations(_rows(*both))
    high = np.maximum(high, beneath)
    deviations = np.where(high >= -beneath, high.clip(min=0), beneath.clip(max=0))
    oddest = np.abs(deviations[1:]).max(1) * (1 + TIED)
    count = len(rows)
    p = tuple(float((1 + (oddest >= abs(found)).sum()) / count) for found in deviations[0])
    allowed = math.floor(level * count + 1e-9)  # how many models may be as odd as the tested one, it included
    return RankTest(deviations, p, float(np.sort(oddest)[::-1][allowed - 1]))


def _rows(tested: ArrayLike, controls: ArrayLike) -> Values:
    mine, theirs = np.asarray(tested, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    rows = np.vstack([mine.reshape(1, -1), theirs.reshape(len(theirs), -1)])
    if not np.isfinite(rows).all():
        raise ConfigError("a statistic is not a number: has a model diverged?")
    return rows


def _deviations(rows: Values) -> Values:
    """How many deviations of the other rows each row lies from their mean; if they are alike, very many."""
    out = np.empty_like(rows)
    largest = np.abs(rows).max(0)
    least = ROUNDING * np.where(largest > 0, largest, 1.0)
    for i, row in enumerate(rows):
        others = np.delete(rows, i, axis=0)
        out[i] = (row - others.mean(0)) / np.maximum(others.std(0, ddof=1), least)
    return out


def overall(outcomes: Sequence[str]) -> str:
    """What several attacks come to: one that sees something decides, one without power says nothing."""
    for outcome in ("still shows", "over-forgotten", "no trace found"):
        if outcome in outcomes:
            return outcome
    return "no power"
