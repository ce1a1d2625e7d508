"""Who is asked next: the protocol of a selector, and the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.metrics import Metric
from unknot.core.weights import Weights

Ids = NDArray[np.int64]

WHEN = ("always", "unlearning")
"""Whether a selector serves every round, or a lane's rounds from the first request that touches it."""


class Selector(Protocol):
    """Chooses among idle clients. Every lane has one of its own, so that none learns from another.

    What it has seen of updates shapes whom it asks, and so the model: `lineage` says whose data that
    was. When any of it is erased, or the lane begins again, the lane gets a fresh one.

    Who is curious is introduced to everybody: by an epoch of training apart or, where it says
    ``meets = "round"``, by a round that everybody is asked for, and that counts.
    """

    @property
    def lineage(self) -> Lineage: ...

    @property
    def curious(self) -> bool:
        """Whether it wants an update of every client before it can choose."""
        ...

    @property
    def learns(self) -> bool:
        """Whether it wants to know what came of its choices."""
        ...

    def fresh(self) -> Selector:
        """One like this that has seen nothing."""
        ...

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        """Everybody's first updates, from the same model, which is given."""
        ...

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        """k of the idle clients (all, where there are fewer), in the order of their ids."""
        ...

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """What came of a choice: the new model, the updates that went into it, and how it does.

        `merit` is its main metric on validation data, as a rule accuracy; negated where less is better.
        """
        ...


@runtime_checkable
class Rewarded(Protocol):
    """A selector whose rewards go by the value of the main metric, and not only by which is better."""

    def check_metric(self, metric: Metric) -> None:
        """Raise `ConfigError` where its settings do not go with the values that this metric may have."""
        ...


class AtRandom:
    """Everybody alike: the k smallest keyed draws."""

    lineage = NOBODY
    curious = False
    learns = False

    def fresh(self) -> AtRandom:
        return self

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        """There is nothing to know."""

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        return key.smallest(idle, k)

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """There is nothing to learn."""


def goes_by_clients(selector: Selector) -> bool:
    """Whether whom it asks may depend on what it has seen of clients."""
    return selector.curious or selector.learns or bool(selector.lineage)


def meets_in_a_round(selector: Selector) -> bool:
    """Whether it gets to know everybody by a round of the lane's own."""
    return bool(getattr(selector, "meets", "epoch") == "round")
