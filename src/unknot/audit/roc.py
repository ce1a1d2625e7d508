"""How well scores tell members from others: the ROC, the area under it, its first per cent.

A score is high for what was likely a member. Attacks matter where they make almost no mistakes, so the
true positive rate at a small false positive rate counts, more than the area (Carlini et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.core.keys import Key

LEVEL = 0.99
RESAMPLES = 1000
RATES = (0.01, 0.001)
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval at `LEVEL`."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class Curve:
    """The scores of members and of others, and what can be read off them."""

    members: Scores
    others: Scores

    def __post_init__(self) -> None:
        for name, scores in (("members", self.members), ("others", self.others)):
            if not len(scores):
                raise ConfigError(f"an attack needs {name} to score; there are none")
            if not np.isfinite(scores).all():
                raise ConfigError(f"the scores of {name} are not all numbers: has the model diverged?")

    @staticmethod
    def of(members: ArrayLike, others: ArrayLike) -> Curve:
        return Curve(np.asarray(members, dtype=np.float64), np.asarray(others, dtype=np.float64))

    def points(self) -> tuple[Scores, Scores]:
        """False and true positive rates, one point a threshold, from (0, 0) to (1, 1)."""
        cuts = np.unique(np.concatenate([self.members, self.others]))[::-1]
        false, true = (
            np.concatenate([[0.0], 1 - np.searchsorted(np.sort(scores), cuts, side="left") / len(scores)])
            for scores in (self.others, self.members)
        )
        return false, true

    def auc(self, key: Key) -> Estimate:
        """The chance that a member scores above another sample, a tie counting half.

        The interval is the bootstrap's: members and others drawn anew, with replacement.
        """
        order = np.argsort(self.others, kind="stable")
        below, upto = (np.searchsorted(self.others[order], self.members, side) for side in SIDES)
        pairs = len(self.members) * len(self.others)
        mine, theirs = self._resampled(key)
        # How many of the others, as drawn, lie before each place in their order.
        before = np.pad(theirs[:, order].cumsum(1), ((0, 0), (1, 0)))
        drawn = (mine * (before[:, below] + before[:, upto])).sum(1) / (2 * pairs)
        return _percentiles(float((below + upto).sum() / (2 * pairs)), drawn)

    def tpr(self, rate: float) -> Estimate | None:
        """How many members are caught when at most `rate` of the others are; None where these are too few.

        The interval is Clopper and Pearson's, the threshold taken as given: unlike the bootstrap's it
        has a width where nobody is caught.
        """
        if len(self.others) * rate < 1 - 1e-9:
            return None
        allowed = math.floor(len(self.others) * rate + 1e-9)
        threshold = np.sort(self.others)[::-1][min(allowed, len(self.others) - 1)]
        return proportion(int((self.members > threshold).sum()), len(self.members))

    def decided(self, cut: float, key: Key) -> dict[str, Estimate]:
        """Precision, recall and F1 where a score above `cut` means "a member".

        As if half of all samples were members, so that the figures do not depend on how many of each
        there are; saying "member" always then has an F1 of 2/3. Intervals are the bootstrap's.
        """
        caught, alarmed = (scores > cut for scores in (self.members, self.others))
        mine, theirs = self._resampled(key)
        value = _decision(caught.mean(keepdims=True), alarmed.mean(keepdims=True))
        drawn = _decision(mine @ caught / len(caught), theirs @ alarmed / len(alarmed))
        return {name: _percentiles(float(value[name][0]), drawn[name]) for name in value}

    def _resampled(self, key: Key) -> tuple[Scores, Scores]:
        """How often each member, and each other sample, is in each resample."""
        mine, theirs = (
            key.child("bootstrap", name).generator().multinomial(n, np.full(n, 1 / n), RESAMPLES)
            for name, n in (("members", len(self.members)), ("others", len(self.others)))
        )
        return mine.astype(np.float64), theirs.astype(np.float64)


def proportion(hits: int, trials: int, level: float = LEVEL) -> Estimate:
    """Clopper and Pearson's exact interval: the chances under which so many hits are not too odd."""
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else _solve(lambda p: 1 - _at_most(hits - 1, trials, p) < tail)
    high = 1.0 if hits == trials else _solve(lambda p: _at_most(hits, trials, p) >= tail)
    return Estimate(hits / trials, low, high)


def _at_most(hits: int, trials: int, p: float) -> float:
    """The binomial distribution: the chance of `hits` or fewer."""
    k = torch.arange(hits + 1, dtype=torch.float64)
    n = torch.tensor(float(trials), dtype=torch.float64)
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return float((ways + k * math.log(p) + (n - k) * math.log1p(-p)).exp().sum())


def _solve(below: Callable[[float], bool]) -> float:
    """Where a test that holds for small chances ceases to hold, by halving."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def _decision(recall: Scores, alarms: Scores) -> dict[str, Scores]:
    said = recall + alarms
    precision = np.divide(recall, said, out=np.zeros_like(recall), where=said > 0)
    return {"precision": precision, "recall": recall, "f1": 2 * recall / (1 + said)}


def _percentiles(value: float, drawn: Scores) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))
