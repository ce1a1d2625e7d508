"""Means of the clients' models, or of their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.errors import ConfigError
from unknot.core.jobs import Update
from unknot.core.lineage import LedgerView
from unknot.core.weights import Weights, weighted_sum
from unknot.federation.aggregators.base import ACTION, shares


@dataclass(frozen=True)
class FedAvg:
    """The mean of the clients' models, weighted by their samples (McMahan et al. 2017)."""

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        total = sum(update.samples for update in updates)
        terms = [(update.samples / total, update.weights) for update in updates]
        return weighted_sum(terms, ledger, ACTION)

    def terms(self, current: Weights, updates: Sequence[Update], version: int) -> list[tuple[float, Weights]]:
        total = sum(update.samples for update in updates)
        return [(update.samples / total, update.weights - current) for update in updates]


@dataclass(frozen=True)
class FedBuff:
    """The current model plus the mean of the clients' changes (Nguyen et al. 2022).

    The mean is plain, as in the paper, unless changes are to count by samples as in FedAvg.
    """

    server_lr: float = 1.0
    """What the mean change is multiplied by, above 0."""
    exponent: float = 0.5
    """An update of τ versions ago counts ``(1 + τ)^-exponent``; 0: as much as a fresh one."""
    by_samples: bool = False
    """Whether updates count by their clients' samples, or all alike."""

    def __post_init__(self) -> None:
        if not (self.server_lr > 0 and self.exponent >= 0):
            raise ConfigError(
                "FedBuff: server_lr must be above 0 and exponent at least 0, "
                f"not {self.server_lr}, {self.exponent}"
            )

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        return weighted_sum([(1.0, current), *self.terms(current, updates, version)], ledger, ACTION)

    def terms(self, current: Weights, updates: Sequence[Update], version: int) -> list[tuple[float, Weights]]:
        found = shares(updates, version, self.exponent, self.by_samples, self.server_lr)
        return [(share, update.step) for share, update in zip(found, updates, strict=True)]
