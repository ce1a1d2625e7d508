"""Each client half as much as the one before."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknot import ConfigError
from unknot.data import Deal, Partition


@dataclass(frozen=True)
class Halving(Partition):
    """The first of `clients` has half of the rows, the next half of the rest, and so on; one at least."""

    clients: int

    kind: ClassVar[str] = "halving"
    by_label: ClassVar[bool] = False

    def deal(self, pool, key):
        if len(pool) < 2 * self.clients:
            raise ConfigError(f"halving: {len(pool)} samples are too few for {self.clients} clients")
        shares = 0.5 ** np.arange(1, self.clients + 1)
        sizes = np.maximum(1, (shares / shares.sum() * (len(pool) - self.clients)).astype(int))
        rows = pool.rows[key.order(pool.rows)]
        return Deal([np.sort(part) for part in np.split(rows, np.cumsum(sizes))[:-1]])
