"""Every client a random share of everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot.core.keys import Key
from unknot.data.partition.checks import check_overlap, whole
from unknot.data.partition.pool import Deal, Partition, Pool, check_enough, group


@dataclass(frozen=True)
class Iid(Partition):
    """Rows in keyed random order; client k takes the k-th run of `samples` rows.

    Without `samples` every row is dealt out, and sizes differ by one at most. With `overlap` each
    client draws its `samples` rows for itself, so that several may hold the same one. Labels play no
    part, so it does for text as well.
    """

    kind: ClassVar[str] = "iid"
    by_label: ClassVar[bool] = False

    clients: int
    """How many clients."""
    samples: int | None = None
    """Samples a client; left out: every row is dealt out."""
    overlap: bool = False
    """Clients draw their `samples` each for itself, so that several may hold the same one."""

    def __post_init__(self) -> None:
        whole(self, clients=self.clients, samples=self.samples)
        check_overlap(self, self.overlap, self.samples)

    def deal(self, pool: Pool, key: Key) -> Deal:
        if self.overlap and self.samples is not None:
            check_enough(pool, 1, self.samples)
            draw = key.child("rows")
            return Deal([draw.child(k).smallest(pool.rows, self.samples) for k in range(self.clients)])
        check_enough(pool, self.clients, self.samples)
        rows = pool.rows[key.child("rows").order(pool.rows)]
        if self.samples is None:
            share, rest = divmod(len(rows), self.clients)
            sizes = share + (np.arange(self.clients) < rest)
        else:
            sizes = np.full(self.clients, self.samples)
        return Deal(group(rows[: sizes.sum()], np.repeat(np.arange(self.clients), sizes), self.clients))
