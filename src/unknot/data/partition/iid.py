"""Every client a random share of everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot.core.keys import Key
from unknot.data.partition.checks import clients_and_samples
from unknot.data.partition.pool import Deal, Partition, Pool, check_enough, group


@dataclass(frozen=True)
class Iid(Partition):
    """Rows in keyed random order; client k takes the k-th run of `samples` rows.

    Without `samples` every row is dealt out, and sizes differ by one at most. Labels play no part,
    so it does for text as well.
    """

    kind: ClassVar[str] = "iid"
    by_label: ClassVar[bool] = False

    clients: int
    samples: int | None = None

    def __post_init__(self) -> None:
        clients_and_samples(self, self.clients, self.samples)

    def deal(self, pool: Pool, key: Key) -> Deal:
        check_enough(pool, self.clients, self.samples)
        rows = pool.rows[key.child("rows").order(pool.rows)]
        if self.samples is None:
            share, rest = divmod(len(rows), self.clients)
            sizes = share + (np.arange(self.clients) < rest)
        else:
            sizes = np.full(self.clients, self.samples)
        return Deal(group(rows[: sizes.sum()], np.repeat(np.arange(self.clients), sizes), self.clients))
