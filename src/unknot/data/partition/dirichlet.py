"""Label distributions drawn from a Dirichlet distribution."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Ints
from unknot.data.partition.apportion import apportion
from unknot.data.partition.checks import check_overlap, whole
from unknot.data.partition.pool import Deal, Partition, Pool, check_enough, deal_counts, draw_counts


def log_gammas(shape: NDArray[np.float64], clients: int, key: Key) -> NDArray[np.float64]:
    """``[clients, classes]`` logarithms of Gamma(shape) draws, each client's from its own key.

    Through Gamma(a) = Gamma(a + 1) · U^(1/a): a small shape would underflow to zero otherwise.
    """
    rows = np.empty((clients, len(shape)))
    for client in range(clients):
        draw = key.child(client).generator()
        rows[client] = np.log(draw.standard_gamma(shape + 1)) + np.log1p(-draw.random(len(shape))) / shape
    return rows


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Smaller `alpha`, fewer classes a client; every draw is keyed by the client.

    With `samples`: client k's label distribution is a draw from Dirichlet(alpha · C · π), π the
    classes' frequencies in the data (plain Dirichlet(alpha) when the C classes are equally
    frequent), and it holds exactly `samples` rows in these proportions, rounded to whole numbers.

    With `overlap` each client draws its rows for itself, so that several may hold the same one: more
    samples in all than there are, as in a simulation that gives each of 100 clients a tenth.

    Without `samples`: every row is dealt out, each class in proportions from Dirichlet(alpha) over the
    clients, so sizes differ too. A client with too few then takes rows, one by one, from whoever holds most,
    of that client's most frequent class.
    """

    kind: ClassVar[str] = "dirichlet"

    clients: int
    """How many clients."""
    alpha: float
    """How alike clients are, above 0: the smaller, the fewer classes a client."""
    samples: int | None = None
    """Samples a client; left out: everything is dealt out, and sizes differ."""
    min_samples: int = 1
    """Whoever has fewer takes rows from whoever holds most."""
    overlap: bool = False
    """Clients draw their `samples` each for itself, so that several may hold the same one."""

    def __post_init__(self) -> None:
        whole(self, clients=self.clients, samples=self.samples, min_samples=self.min_samples)
        if not 0 < self.alpha < float("inf"):
            raise ConfigError(f"Dirichlet: alpha must be positive, not {self.alpha}")
        check_overlap(self, self.overlap, self.samples)
        if self.samples is not None and self.samples < self.min_samples:
            raise ConfigError(
                f"Dirichlet: {self.samples} samples a client are fewer than min_samples = {self.min_samples}"
            )

    def deal(self, pool: Pool, key: Key) -> Deal:
        if self.overlap and self.samples is not None:
            counts = self._exactly(pool, self.samples, key.child("shares"))
            return draw_counts(pool, counts, key.child("rows"))
        if self.samples is None:
            counts = self._everything(pool, key.child("shares"))
        else:
            check_enough(pool, self.clients, self.samples)
            counts = self._exactly(pool, self.samples, key.child("shares"))
        remedy = "Lower clients, samples or validation, raise alpha, or leave samples out"
        return deal_counts(pool, counts, key.child("rows"), remedy)

    def _exactly(self, pool: Pool, samples: int, key: Key) -> Ints:
        labels = pool.dataset.train.y.numpy()
        # Of the whole training part: what validation takes must not change a client's draw.
        frequency = np.bincount(labels, minlength=pool.classes) / len(labels)
        present = frequency > 0
        logs = log_gammas(self.alpha * pool.classes * frequency[present], self.clients, key)
        counts = np.zeros((self.clients, pool.classes), dtype=np.int64)
        counts[:, present] = apportion(np.exp(logs - logs.max(axis=1, keepdims=True)), samples)
        return counts

    def _everything(self, pool: Pool, key: Key) -> Ints:
        check_enough(pool, self.clients, self.min_samples)
        logs = log_gammas(np.full(pool.classes, float(self.alpha)), self.clients, key)
        counts = apportion(np.exp(logs - logs.max(axis=0)).T, pool.supply).T.copy()
        return _raise_to(counts, self.min_samples)


def _raise_to(counts: Ints, minimum: int) -> Ints:
    """Move rows from the largest clients to those that hold fewer than `minimum`."""
    sizes = counts.sum(axis=1)
    # (−size, client): the largest first, the lowest id among equals.
    heap = [(-int(size), client) for client, size in enumerate(sizes) if size > minimum]
    heapq.heapify(heap)
    for client in np.flatnonzero(sizes < minimum):
        for _ in range(minimum - int(sizes[client])):
            size, donor = heapq.heappop(heap)
            label = int(np.argmax(counts[donor]))
            counts[donor, label] -= 1
            counts[client, label] += 1
            if -size - 1 > minimum:
                heapq.heappush(heap, (size + 1, donor))
    return counts
