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


@dataclass(frozen=True)
class FedBuff:
    """The current model plus the mean of the clients' changes (Nguyen et al. 2022).

    A change that started from τ versions ago counts ``(1 + τ)^-exponent``. The mean is plain, as in
    the paper; `by_samples` weights it by the clients' samples as FedAvg does.
    """

    server_lr: float = 1.0
    exponent: float = 0.5
    by_samples: bool = False

    def __post_init__(self) -> None:
        if not (self.server_lr > 0 and self.exponent >= 0):
            raise ConfigError(
                f"FedBuff needs server_lr > 0 and exponent >= 0, not {self.server_lr}, {self.exponent}"
            )

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        found = shares(updates, version, self.exponent, self.by_samples, self.server_lr)
        terms = [(share, update.step) for share, update in zip(found, updates, strict=True)]
        return weighted_sum([(1.0, current), *terms], ledger, ACTION)
