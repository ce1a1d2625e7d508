"""From updates to a new model. Sums are taken in the order of client ids: the order is in the bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from unknot.core.errors import ConfigError
from unknot.core.jobs import Update
from unknot.core.lineage import Ledger
from unknot.core.weights import Weights, weighted_sum


class Aggregate(Protocol):
    def __call__(self, current: Weights, updates: Sequence[Update], version: int, ledger: Ledger) -> Weights:
        """The new model, from the current one and updates in the order of client ids."""
        ...


@dataclass(frozen=True)
class FedAvg:
    """The mean of the clients' models, weighted by their samples (McMahan et al. 2017)."""

    def __call__(self, current: Weights, updates: Sequence[Update], version: int, ledger: Ledger) -> Weights:
        total = sum(update.samples for update in updates)
        terms = [(update.samples / total, update.weights) for update in updates]
        return weighted_sum(terms, ledger, "aggregate an update")


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

    def __call__(self, current: Weights, updates: Sequence[Update], version: int, ledger: Ledger) -> Weights:
        counts = [update.samples if self.by_samples else 1 for update in updates]
        terms = [(1.0, current)]
        for count, update in zip(counts, updates, strict=True):
            ledger.check(update, "aggregate an update")
            discount = (1.0 + version - update.job.version) ** -self.exponent
            factor = self.server_lr * discount * count / sum(counts)
            terms.append((factor, update.step))
        return weighted_sum(terms, ledger, "aggregate an update")
