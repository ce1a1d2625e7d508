"""Server optimisers: the mean of the clients' changes is a gradient, and the server takes adaptive steps.

S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konečný, S. Kumar, H. B. McMahan: Adaptive Federated
Optimization. ICLR 2021, Algorithm 2. With Δ the mean of the changes: m ← β₁m + (1 − β₁)Δ, v by the rule
of each, w ← w + η·m/(√v + τ); m begins at 0 and v at τ², and no bias is corrected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from unknot.core.jobs import Update
from unknot.core.lineage import LedgerView
from unknot.core.weights import Weights, weighted_sum
from unknot.federation.aggregators.base import (
    ACTION,
    check_exponent,
    check_positive,
    check_share,
    shares,
)


class _ServerOptimizer(ABC):
    """What the three have in common. Moments carry the lineage of all that went into them."""

    server_lr: float
    tau: float
    exponent: float
    by_samples: bool

    def __post_init__(self) -> None:
        check_positive(self, server_lr=self.server_lr, tau=self.tau)
        check_share(self, **dict(self._rates()))
        check_exponent(self, self.exponent)
        self._first: Weights | None = None
        self._second: Weights | None = None

    def fresh(self) -> Self:
        """One like this that has seen nothing."""
        return replace(self)  # type: ignore[type-var]  # every subclass is a dataclass

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        found = shares(updates, version, self.exponent, self.by_samples)
        steps = [(share, update.step) for share, update in zip(found, updates, strict=True)]
        change = weighted_sum(steps, ledger, ACTION)
        beta = self._momentum
        first = change * (1 - beta)
        if self._first is not None:
            first = first + self._first * beta
        old = self._second or change.like(torch.full_like(change.vector, self.tau**2))
        second = change.like(self._squares(old.vector, change.vector.square()), old)
        self._first, self._second = first, second
        step = first.like(first.vector / (second.vector.sqrt() + self.tau), second)
        return weighted_sum([(1.0, current), (self.server_lr, step)], ledger, ACTION)

    @property
    @abstractmethod
    def _momentum(self) -> float:
        """β₁."""

    @abstractmethod
    def _squares(self, old: Tensor, new: Tensor) -> Tensor:
        """The second moment, from what it was and the square of the change."""

    def _rates(self) -> list[tuple[str, float]]:
        """What must be at least 0 and below 1."""
        return [("beta", self._momentum)]


@dataclass
class FedAdam(_ServerOptimizer):
    """Adam at the server: v ← β₂v + (1 − β₂)Δ².

    Changes count by their clients' samples, as in the paper's experiments, and less if they are old.
    """

    server_lr: float = 0.01
    """The length of the server's step, above 0."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decay of the running means of the change and of its square, each in [0, 1)."""
    tau: float = 1e-3
    """Added to the divisor: the larger, the less adaptive; above 0."""
    exponent: float = 0.5
    """An update of τ versions ago counts ``(1 + τ)^-exponent``; 0: as much as a fresh one."""
    by_samples: bool = True
    """Whether updates count by their clients' samples, or all alike."""

    @property
    def _momentum(self) -> float:
        return self.betas[0]

    def _squares(self, old: Tensor, new: Tensor) -> Tensor:
        return self.betas[1] * old + (1 - self.betas[1]) * new

    def _rates(self) -> list[tuple[str, float]]:
        return [("betas[0]", self.betas[0]), ("betas[1]", self.betas[1])]


@dataclass
class FedYogi(FedAdam):
    """Yogi at the server: v ← v − (1 − β₂)Δ²·sign(v − Δ²), so v moves at the change's own size at most."""

    def _squares(self, old: Tensor, new: Tensor) -> Tensor:
        return old - (1 - self.betas[1]) * new * (old - new).sign()


@dataclass
class FedAdagrad(_ServerOptimizer):
    """Adagrad at the server: v ← v + Δ², so steps get smaller as changes add up.

    β₁ is 0, as in the paper's experiments.
    """

    server_lr: float = 0.03
    """The length of the server's step, above 0."""
    beta: float = 0.0
    """Decay of the running mean of the change, in [0, 1)."""
    tau: float = 1e-3
    """Added to the divisor: the larger, the less adaptive; above 0."""
    exponent: float = 0.5
    """An update of τ versions ago counts ``(1 + τ)^-exponent``; 0: as much as a fresh one."""
    by_samples: bool = True
    """Whether updates count by their clients' samples, or all alike."""

    @property
    def _momentum(self) -> float:
        return self.beta

    def _squares(self, old: Tensor, new: Tensor) -> Tensor:
        return old + new
