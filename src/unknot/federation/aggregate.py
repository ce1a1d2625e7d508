"""From updates to a new model. Sums are taken in the order of client ids: the order is in the bits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import Protocol, cast

from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, Unit
from unknot.core.recipe import Recipe
from unknot.core.weights import Weights, weighted_sum


class Aggregate(Protocol):
    """Every node has an aggregator of its own, made anew when the node begins again.

    One with a state (momentum, say) has a method ``fresh()`` that gives one like it that has seen
    nothing; without it, copies of the one that was given are made, which itself is never called. What
    it returns is held to the lineage of all that the node's aggregator was ever given.
    """

    def __call__(self, current: Weights, updates: Sequence[Update], version: int, ledger: Ledger) -> Weights:
        """The new model, from the current one and updates in the order of client ids."""
        ...


def new_aggregator(given: Aggregate) -> Aggregate:
    """One like it that has seen nothing."""
    fresh = getattr(given, "fresh", None)
    if fresh is not None:
        return cast(Aggregate, fresh())
    return given if _plain(given) else copy.deepcopy(given)


def check_aggregator(given: Aggregate, initial: Weights) -> None:
    """Refuse an aggregator whose copies share a state: nothing could be forgotten exactly with it."""
    if _plain(given):
        return
    job = Job(Unit(0), initial, Key.root(0), Recipe())
    updates = [
        Update(job, initial.like(initial.vector * factor), samples, 0.0)
        for factor, samples in ((1.5, 2), (0.5, 1))
    ]
    first = new_aggregator(given)
    once = first(initial, updates, 0, Ledger())
    first(once, updates, 1, Ledger())
    if not new_aggregator(given)(initial, updates, 0, Ledger()).equal(once):
        raise ConfigError(
            f"the aggregator {type(given).__name__} remembers what another one like it was given: "
            "keep its state in attributes, and give it a method fresh() that returns one without any"
        )


def _plain(given: Aggregate) -> bool:
    """Whether it is a value through and through, which cannot have a state."""
    if not is_dataclass(given) or not given.__dataclass_params__.frozen:
        return False
    return all(isinstance(value, bool | int | float | str | None) for value in vars(given).values())


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
