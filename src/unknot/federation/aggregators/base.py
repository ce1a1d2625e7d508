"""What an aggregator is. Sums are taken in the order of client ids: the order is in the bits."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Protocol, cast, runtime_checkable

import torch

from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, LedgerView, Unit
from unknot.core.own import copied, copies, is_own
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.own_parts import Classes, name_of

ACTION = "aggregate an update"
"""What the ledger refuses where an update carries erased data."""


class Aggregate(Protocol):
    """Every node has an aggregator of its own, made anew when the node begins again.

    One with a state (momentum, say) has a method ``fresh()`` that gives one like it that has seen
    nothing; without it, copies of the one that was given are made, which itself is never called. What
    it returns is held to the lineage of all that the node's aggregator was ever given.
    """

    def __call__(
        self, current: Weights, updates: Sequence[Update], version: int, ledger: LedgerView
    ) -> Weights:
        """The new model, from the current one and updates in the order of client ids."""
        ...


@runtime_checkable
class Additive(Protocol):
    """An aggregator that can say what each update adds: the current model plus all of that is the new one.

    What a client ever added can be added up, then, and be taken out.
    """

    def terms(
        self, current: Weights, updates: Sequence[Update], version: int
    ) -> Sequence[tuple[float, Weights]]:
        """How much each update counts, and the change that counts as much."""
        ...


def new_aggregator(given: Aggregate) -> Aggregate:
    """One like it that has seen nothing."""
    fresh = getattr(given, "fresh", None)
    if fresh is not None:
        return cast(Aggregate, fresh())
    return given if not is_own(given) and _plain(given) else copy.deepcopy(given)


def check_aggregator(given: Aggregate, like: Weights) -> None:
    """Refuse an aggregator whose copies share a state: nothing could be forgotten exactly with it.

    One of somebody's own is tried with made-up models of this layout.
    """
    if not is_own(given):
        return
    model = Weights(torch.linspace(-1, 1, like.layout.size).to(like.vector), like.layout)
    job = Job(Unit(0), model, Key.root(0), Recipe())
    updates = [  # which do not cancel, however much each counts
        Update(job, model.like(model.vector * factor + factor), samples, 0.0)
        for factor, samples in ((1.5, 2), (0.75, 1))
    ]

    def tried(aggregate: Aggregate, current: Weights, version: int) -> Weights:
        made = aggregate(copied(current), copies(updates), version, LedgerView(Ledger()))
        if not isinstance(made, Weights):
            raise ConfigError(f"the aggregator {name_of(given)} gives a {type(made).__name__}, no Weights")
        return copied(made)

    classes = Classes({f"aggregator {name_of(given)}": given})
    first = new_aggregator(given)
    try:
        once = tried(first, model, 0)
    except Exception as error:
        if isinstance(error, UnknotError):
            raise
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the aggregator {name_of(given)} cannot be called with a model, updates, a version and a "
            f"ledger: {what}"
        ) from error
    tried(first, once, 1)
    if not tried(new_aggregator(given), model, 0).equal(once):
        raise ConfigError(
            f"the aggregator {name_of(given)} remembers what another one like it was given: "
            "keep its state in attributes, and give it a method fresh() that returns one without any"
        )
    classes.check()


def _plain(given: Aggregate) -> bool:
    """Whether it is a value through and through, which cannot have a state."""
    if not is_dataclass(given) or not given.__dataclass_params__.frozen:
        return False
    return all(isinstance(value, bool | int | float | str | None) for value in vars(given).values())


def shares(
    updates: Sequence[Update], version: int, exponent: float, by_samples: bool, scale: float = 1.0
) -> list[float]:
    """How much each change counts: one of τ versions ago by ``(1 + τ)^-exponent`` less than a fresh one.

    At a synchronous pace no change is old, and the shares add up to `scale`.
    """
    counts = [update.samples if by_samples else 1 for update in updates]
    discounts = [(1.0 + version - update.job.version) ** -exponent for update in updates]
    total = sum(counts)
    return [scale * old * count / total for old, count in zip(discounts, counts, strict=True)]


def check_positive(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"{type(owner).__name__}: {name} must be positive and finite, not {value}")


def check_share(owner: object, below: float = 1.0, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < below:
            raise ConfigError(
                f"{type(owner).__name__}: {name} must be at least 0 and below {below:g}, not {value}"
            )


def check_exponent(owner: object, exponent: float) -> None:
    if not 0 <= exponent < math.inf:
        raise ConfigError(f"{type(owner).__name__}: exponent must not be negative, not {exponent}")
