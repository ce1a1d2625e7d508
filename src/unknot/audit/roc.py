"""How well scores tell members from others: the ROC, the area under it, its first per cent.

A score is high for what was likely a member. Attacks matter where they make almost no mistakes, so the
true positive rate at a small false positive rate counts, more than the area (Carlini et al. 2022).

Every figure has an interval at `LEVEL`, whatever the scores' distributions are, over draws of the samples:
how the figure varies from one trained model to the next is not in it. Those of rates hold in finite samples;
that of the area nearly, with 30 members and others or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError

LEVEL = 0.99
RATES = (0.01, 0.001)
ENOUGH = 10
"""How many false alarms a rate must allow. The rate that a threshold really has is off by about one in the
square root of them; with ten, a third. So 1 % takes 1,000 others, and 0.1 % takes 10,000."""
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

    def auc(self) -> Estimate:
        """The chance that a member scores above another sample, a tie counting half.

        The interval is Wilson's for a share of N trials, where θ(1 − θ) / N is DeLong's variance. What
        varies is, for each member, the share of the others that it beats, and for each of the others the
        share of the members that beat it. So N is not less than the smaller of both numbers, which is what
        scores that are all or nothing are worth, and is just that where members and others are apart.
        """
        shares = beaten(self.others, self.members), beaten(self.members, self.others)
        worth = 1 / sum(_all_or_nothing(each) / len(each) for each in shares)
        return _wilson(float(shares[0].mean()), max(worth, min(map(len, shares))))

    def tpr(self, rate: float) -> Estimate | None:
        """How many members are caught when at most `rate` of the others are; None where these are too few.

        Of n others the k-th highest score is the threshold, k = ⌊rate (n + 1)⌋: of new ones, k in n + 1
        score above it on average. The interval allows for the threshold's error as well as for the
        members': the true one lies between two scores of the others (a binomial count says which), and
        Clopper and Pearson tell how many members are above the one, and how many reach the other. It holds
        in finite samples, and whether a tie with the threshold counts as caught or not.
        """
        n = len(self.others)
        if n * rate < ENOUGH - 1e-9:
            return None
        ranked, side = np.sort(self.others)[::-1], (1 - LEVEL) / 2
        threshold = ranked[math.floor(rate * (n + 1) + 1e-9) - 1]
        # How many others reach the true threshold is Binomial(n, rate). On each side, the threshold may take
        # half of the error; what it leaves is the members'.
        upto = _binomial(n, n)(rate).cumsum()
        above, down = int((upto <= side / 2).sum()), int((1 - upto > side / 2).sum()) + 1
        low, high = 0.0, 1.0
        if above:
            caught = int((self.members > ranked[above - 1]).sum())
            low = proportion(caught, len(self.members), 1 - 2 * (side - upto[above - 1])).low
        if down <= n:
            caught = int((self.members >= ranked[down - 1]).sum())
            high = proportion(caught, len(self.members), 1 - 2 * (side - (1 - upto[down - 1]))).high
        return Estimate(float((self.members > threshold).mean()), low, high)

    def decided(self, cut: float) -> dict[str, Estimate]:
        """Precision, recall and F1 where a score above `cut` means "a member".

        As if half of all samples were members, so that the figures do not depend on how many of each
        there are; saying "member" always then has an F1 of 2/3. All three rise with the members caught
        and fall with the others alarmed: their intervals are Clopper and Pearson's on both, which hold
        at once.
        """
        caught, alarmed = (
            proportion(int((scores > cut).sum()), len(scores), (1 + LEVEL) / 2)
            for scores in (self.members, self.others)
        )
        value = _decision(caught.value, alarmed.value)
        low, high = _decision(caught.low, alarmed.high), _decision(caught.high, alarmed.low)
        return {name: Estimate(value[name], low[name], high[name]) for name in value}


def beaten(these: Scores, by: Scores) -> Scores:
    """For each score of `by`, the share of `these` that it exceeds, a tie counting half."""
    below, upto = (np.searchsorted(np.sort(these), by, side) for side in SIDES)
    return np.asarray((below + upto) / (2 * len(these)))


def proportion(hits: int, trials: int, level: float = LEVEL) -> Estimate:
    """Clopper and Pearson's exact interval: the chances under which so many hits are not too odd."""
    tail, upto = (1 - level) / 2, _binomial(hits, trials)
    low = 0.0 if hits == 0 else _solve(lambda p: 1 - upto(p)[:-1].sum() < tail)
    high = 1.0 if hits == trials else _solve(lambda p: upto(p).sum() >= tail)
    return Estimate(hits / trials, low, high)


def _binomial(most: int, trials: int) -> Callable[[float], Scores]:
    """The chances of 0, 1, ... `most` hits, by the chance p of one."""
    k = torch.arange(most + 1, dtype=torch.float64)
    n = torch.tensor(float(trials), dtype=torch.float64)
    ways = (torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)).numpy()
    hits, misses = k.numpy(), (n - k).numpy()
    return lambda p: np.exp(ways + hits * math.log(p) + misses * math.log1p(-p))


def _solve(below: Callable[[float], bool]) -> float:
    """Where a test that holds for small chances ceases to hold, by halving."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def _all_or_nothing(shares: Scores) -> float:
    """The variance of `shares`, as a part of what it were if each of them was 0 or 1 (with the same mean).

    As if one more had been so: of shares that hardly vary, a few say little about those not seen.
    """
    mean = shares.mean()
    return float((((shares - mean) ** 2).sum() + 1) / ((len(shares) - 1) * mean * (1 - mean) + 1))


def _wilson(share: float, trials: float) -> Estimate:
    """The shares θ from which `share` is no further than z deviations √(θ (1 − θ) / trials)."""
    z2 = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2 / trials
    middle = (share + z2 / 2) / (1 + z2)
    reach = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return Estimate(share, max(0.0, middle - reach), min(1.0, middle + reach))


def _decision(recall: float, alarms: float) -> dict[str, float]:
    said = recall + alarms
    return {
        "precision": recall / said if said else 0.0,
        "recall": recall,
        "f1": 2 * recall / (1 + said),
    }
