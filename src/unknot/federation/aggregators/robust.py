"""Aggregation that bounds what a single client can do to the model.

All three take what each client *changed*, and add one change to the current model. Whoever sent an update is
in the lineage of the result: a median tells which client it is not, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unknot.core.jobs import Update
from unknot.core.lineage import LedgerView
from unknot.core.weights import Weights, weighted_sum
from unknot.federation.aggregators.base import ACTION, check_exponent, check_positive, check_share, shares

_CHUNK = 1 << 20
"""So many numbers are sorted in one go: no second copy of all updates is made."""


@dataclass(frozen=True)
class Median:
    """The median of the changes, number by number (Yin et al. 2018); of two in the middle, their mean.

    Every client counts as one, however many samples it has and however old its change is.
    """

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        middle = (len(updates) - 1) // 2
        return _by_rank(current, updates, ledger, middle)


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of the changes, number by number, without the smallest and the greatest (Yin et al. 2018).

    Every client counts as one, however many samples it has and however old its change is.
    """

    trim: float = 0.1
    """The share that is left out at either end, rounded down to whole clients; below 0.5."""

    def __post_init__(self) -> None:
        check_share(self, below=0.5, trim=self.trim)

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        return _by_rank(current, updates, ledger, math.floor(self.trim * len(updates) + 1e-9))


@dataclass(frozen=True)
class NormClipping:
    """The mean of the changes, none of them longer than a bound (Sun et al. 2019)."""

    bound: float
    """The greatest length of a client's change; a longer one is scaled down to it."""
    exponent: float = 0.5
    """An update of τ versions ago counts ``(1 + τ)^-exponent``; 0: as much as a fresh one."""
    by_samples: bool = True
    """Whether updates count by their clients' samples, or all alike."""

    def __post_init__(self) -> None:
        check_positive(self, bound=self.bound)
        check_exponent(self, self.exponent)

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        return weighted_sum([(1.0, current), *self.terms(current, updates, version)], ledger, ACTION)

    def terms(self, current: Weights, updates: Sequence[Update], version: int) -> list[tuple[float, Weights]]:
        found = shares(updates, version, self.exponent, self.by_samples)
        return [(share, self._shortened(update.step)) for share, update in zip(found, updates, strict=True)]

    def _shortened(self, step: Weights) -> Weights:
        length = float(step.vector.norm())
        return step * (self.bound / length) if length > self.bound else step


def _by_rank(current: Weights, updates: Sequence[Update], ledger: LedgerView, trim: int) -> Weights:
    """The current model plus, number by number, the mean of the changes without `trim` at either end."""
    steps = [update.step for update in updates]
    for step in steps:
        ledger.check(step, ACTION)
    vectors = [step.vector for step in steps]
    kept = slice(trim, len(steps) - trim)
    change = torch.empty_like(vectors[0])
    width = max(1, _CHUNK // len(steps))
    for first in range(0, len(change), width):
        part = slice(first, first + width)
        change[part] = torch.stack([vector[part] for vector in vectors]).sort(0).values[kept].mean(0)
    return weighted_sum([(1.0, current), (1.0, steps[0].like(change, *steps[1:]))], ledger, ACTION)
