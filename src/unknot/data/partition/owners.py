"""Natural clients: a writer's images, a speaker's lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.partition.checks import whole
from unknot.data.partition.pool import Deal, Partition, Pool, by_class, own_words


@dataclass(frozen=True)
class ByOwner(Partition):
    """Client k is the owner with the k-th most training rows in the data set (ties: lower number first).

    A client's test rows are its owner's in the test part; an owner who is not in there gives a share of its
    training rows (rounded, one at least if it has two) to be tested with, and these are appended to the test
    samples. Whatever is held out of an owner's rows, for validation
    or for testing, belongs to its client and is erased with it. With `samples`, what an owner has beyond
    them takes no part. Each owner's draws are by its name: what others have changes none of them.
    """

    kind: ClassVar[str] = "by-owner"
    by_label: ClassVar[bool] = False
    by_owner: ClassVar[bool] = True

    clients: int | None = None
    """How many owners, those with most samples first; left out: all."""
    min_samples: int = 1
    """Owners with fewer samples to train with are left out."""
    test_share: float = 0.1
    """Of an owner who is not in the test part: the share of rows to be tested with, in [0, 1)."""
    samples: int | None = None
    """Samples a client at most, drawn from its owner's; left out: all of them."""

    def __post_init__(self) -> None:
        whole(self, clients=self.clients, samples=self.samples, min_samples=self.min_samples)
        if self.samples is not None and self.samples < self.min_samples:
            raise ConfigError(
                f"ByOwner: samples = {self.samples} is less than min_samples = {self.min_samples}"
            )
        if not 0 <= self.test_share < 1:
            raise ConfigError(f"ByOwner: test_share must be at least 0 and below 1, not {self.test_share}")

    def deal(self, pool: Pool, key: Key) -> Deal:
        train_owner, test_owner = owners_of(pool.dataset)
        names = pool.dataset.owner_names
        owners = len(names)
        mine = train_owner[pool.rows]
        left = np.bincount(mine, minlength=owners)
        tested = np.bincount(test_owner, minlength=owners) > 0
        held = np.floor(left * self.test_share + 0.5).astype(np.int64)
        if self.test_share:
            held = np.maximum(held, 1)
        held = np.where(tested, 0, np.minimum(held, np.maximum(left - 1, 0)))
        chosen = self._choose(pool, np.bincount(train_owner, minlength=owners), left - held)

        # Sorted by owner, then by keyed draw: the first `held` of an owner are put aside.
        order = np.lexsort((own_words(key.child("rows"), train_owner, names)[pool.rows], mine))
        rows, ends = pool.rows[order], np.cumsum(left)
        starts = ends - left
        last = ends if self.samples is None else np.minimum(ends, starts + held + self.samples)
        shares = [np.sort(rows[starts[o] + held[o] : last[o]]) for o in chosen]
        aside = [np.sort(rows[starts[o] : starts[o] + held[o]]) for o in chosen]

        own = by_class(np.arange(len(test_owner)), test_owner, owners)
        begins = len(test_owner) + np.cumsum(held[chosen]) - held[chosen]
        test_rows = [
            np.concatenate([own[o], np.arange(begin, begin + held[o])]).astype(np.int64)
            for o, begin in zip(chosen, begins, strict=True)
        ]
        return Deal(shares, test_rows, np.concatenate(aside), chosen)

    def _choose(self, pool: Pool, size: Ints, left: Ints) -> Ints:
        ranked = np.lexsort((np.arange(len(size)), -size))
        able = ranked[left[ranked] >= self.min_samples]
        if not len(able) or (self.clients is not None and len(able) < self.clients):
            raise ConfigError(
                f"{pool.name}: {self.clients or 'some'} owners with at least {self.min_samples} samples are "
                f"asked for, there are {len(able)}. Lower clients, min_samples, test_share or validation"
            )
        return able[: self.clients]


def owners_of(dataset: Dataset) -> tuple[Ints, Ints]:
    """Whose the training and the test rows are; raises `ConfigError` where that is not known."""
    if dataset.train_owner is None or dataset.test_owner is None:
        raise ConfigError(
            f"{dataset.name} does not say whose its samples are. Use another partition, or a data set with "
            "owners: digits, mnist-writers, femnist, shakespeare, sentiments, texts"
        )
    return dataset.train_owner, dataset.test_owner
