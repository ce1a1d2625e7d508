"""Every client mostly one class: by share (DominantClass) or by ratio (MajorityClass)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Ints
from unknot.data.partition.checks import whole
from unknot.data.partition.pool import Deal, Partition, Pool, check_enough, deal_counts


def dominant_counts(clients: int, classes: int, majority: int, samples: int) -> Ints:
    """``counts[k, c]``: `majority` of class k mod `classes`, the rest evenly over the others.

    What does not divide evenly goes, one each, to the classes that follow the client's own; each
    lap of `classes` clients begins where the one before it stopped, so that no class is favoured.
    """
    client = np.arange(clients)[:, None]
    own, lap = client % classes, client // classes
    if classes == 1:
        return np.full((clients, 1), samples, dtype=np.int64)
    base, extra = divmod(samples - majority, classes - 1)
    place = (np.arange(classes)[None, :] - own) % classes - 1
    counts = base + ((place - lap * extra) % (classes - 1) < extra)
    return np.where(place < 0, majority, counts).astype(np.int64)


class _Dominance(Partition):
    """Client k's class is k mod the number of classes; how much of it, the kinds below say."""

    clients: int
    samples: int | tuple[int, ...] | None

    @abstractmethod
    def majority(self, samples: int, classes: int) -> int:
        """How many of a client's samples are of its own class."""

    def counts(self, samples: int, classes: int) -> Ints:
        return dominant_counts(self.clients, classes, self.majority(samples, classes), samples)

    def deal(self, pool: Pool, key: Key) -> Deal:
        remedy = "Lower clients, samples or validation, or leave samples out to take what fits"
        if isinstance(self.samples, tuple):
            groups = np.array_split(np.arange(self.clients), len(self.samples))
            parts = [self.counts(n, pool.classes)[g] for n, g in zip(self.samples, groups, strict=True)]
            return deal_counts(pool, np.vstack(parts), key.child("rows"), remedy)
        check_enough(pool, self.clients, self.samples)
        samples = self.samples if self.samples is not None else self._most(pool)
        return deal_counts(pool, self.counts(samples, pool.classes), key.child("rows"), remedy)

    def _most(self, pool: Pool) -> int:
        """As many samples a client as the scarcest class allows, by bisection."""
        low, high = 0, len(pool) // self.clients + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = (self.counts(middle, pool.classes).sum(axis=0) <= pool.supply).all()
            low, high = (middle, high) if fits else (low, middle)
        if not low:
            raise ConfigError(
                f"{pool.name}: the scarcest class has {pool.supply.min()} samples to deal out, too few for "
                f"{self.clients} clients. Lower clients"
            )
        return low


@dataclass(frozen=True)
class DominantClass(_Dominance):
    """`share` of a client's samples are of one class, the rest evenly of the others.

    Client k's class is k mod the number of classes; it holds ``share × samples`` of it, rounded, and
    one at least. Without `samples` every client holds the same number, as many as the scarcest
    class allows.
    """

    kind: ClassVar[str] = "dominant-class"

    clients: int
    """How many clients."""
    share: float = 0.8
    """The share of a client's samples that are of its class, in (0, 1]."""
    samples: int | tuple[int, ...] | None = None
    """Samples a client; several: of as many equal groups of clients, by ids; left out: as many as fit."""

    def __post_init__(self) -> None:
        several = self.samples if isinstance(self.samples, tuple) else (self.samples,)
        for samples in several:
            whole(self, clients=self.clients, samples=samples)
        if not 0 < len(several) <= self.clients:
            raise ConfigError(
                f"DominantClass: {len(several)} numbers of samples for {self.clients} clients: give one for "
                "each of at most as many groups"
            )
        if not 0 < self.share <= 1:
            raise ConfigError(f"DominantClass: share must be above 0 and at most 1, not {self.share}")

    def majority(self, samples: int, classes: int) -> int:
        return min(samples, max(1, int(self.share * samples + 0.5)))


@dataclass(frozen=True)
class MajorityClass(_Dominance):
    """Client k holds mostly class k; each other class is `ratio` times as frequent with it.

    With n samples and C classes the majority is ``n / (1 + (C − 1) ratio)``, rounded, the rest
    evenly over the others: ratio 0 is one class alone, ratio 1 all classes alike. Clients beyond C
    begin again with class 0. Without `samples`: as many as the scarcest class allows.
    """

    kind: ClassVar[str] = "majority-class"

    clients: int
    """How many clients."""
    ratio: float
    """How frequent each other class is beside the client's own: 0, none; 1, all alike."""
    samples: int | None = None
    """Samples a client; left out: as many as the scarcest class allows."""

    def __post_init__(self) -> None:
        whole(self, clients=self.clients, samples=self.samples)
        if not 0 <= self.ratio <= 1:
            raise ConfigError(f"MajorityClass: ratio must be in 0..1 (minority/majority), not {self.ratio}")

    def majority(self, samples: int, classes: int) -> int:
        return int(samples / (1 + (classes - 1) * self.ratio) + 0.5)
