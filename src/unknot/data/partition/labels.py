"""Every client a few labels only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Ints
from unknot.data.partition.checks import whole
from unknot.data.partition.pool import Deal, Partition, Pool, check_enough, deal_counts


@dataclass(frozen=True)
class Labels(Partition):
    """Each client holds exactly `k` labels: label (client mod classes), and k − 1 others by keyed draw.

    With `samples` a client's samples are spread evenly over its labels, the first ones getting what
    does not divide. Without, each label's rows are spread evenly over the clients that hold it:
    every row of a label that somebody holds is dealt out, and sizes differ.
    """

    kind: ClassVar[str] = "labels"

    clients: int
    """How many clients."""
    k: int
    """How many labels a client holds."""
    samples: int | None = None
    """Samples a client, spread evenly over its labels; left out: every row is dealt out."""

    def __post_init__(self) -> None:
        whole(self, clients=self.clients, samples=self.samples, k=self.k)
        if self.samples is not None and self.samples < self.k:
            raise ConfigError(f"Labels: {self.samples} samples cannot hold {self.k} labels. Lower k")

    def holdings(self, classes: int, key: Key) -> Ints:
        """``[clients, k]``: the labels of each client, its first one first."""
        client = np.arange(self.clients)[:, None]
        # One word for each (client, label): another client's presence changes none of them.
        words = key.words(client * classes + np.arange(classes)[None, :]) >> np.uint64(1)
        words[client[:, 0], client[:, 0] % classes] = 0
        return np.argsort(words, axis=1, kind="stable")[:, : self.k].astype(np.int64)

    def deal(self, pool: Pool, key: Key) -> Deal:
        check_enough(pool, self.clients, self.samples)
        if self.k > pool.classes:
            raise ConfigError(f"Labels: k = {self.k}, but {pool.name} has {pool.classes} classes. Lower k")
        held = self.holdings(pool.classes, key.child("labels"))
        counts = np.zeros((self.clients, pool.classes), dtype=np.int64)
        if self.samples is not None:
            base, extra = divmod(self.samples, self.k)
            np.put_along_axis(counts, held, base + (np.arange(self.k) < extra)[None, :], axis=1)
            remedy = "Lower clients, samples or validation, raise k, or leave samples out"
            return deal_counts(pool, counts, key.child("rows"), remedy)
        np.put_along_axis(counts, held, 1, axis=1)
        holders = counts.sum(axis=0)
        thin = np.flatnonzero(holders > pool.supply)
        if len(thin):
            raise ConfigError(
                f"{pool.name}: class {thin[0]} runs out: {holders[thin[0]]} clients hold it, there are "
                f"{pool.supply[thin[0]]} samples of it to deal out. Lower clients or k"
            )
        share, extra_rows = np.divmod(pool.supply, np.maximum(holders, 1))
        place = np.cumsum(counts, axis=0) - 1  # the how-manieth holder of the label
        counts *= share + (place < extra_rows)
        return deal_counts(pool, counts, key.child("rows"), "")
