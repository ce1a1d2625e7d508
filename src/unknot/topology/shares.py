"""Clusters by shares: a population's clients divided among servers, as a game of incentives has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from unknot.core.errors import ConfigError
from unknot.core.keys import Key


def populations_by_size(sizes: Mapping[int, int], count: int) -> list[list[int]]:
    """`count` populations, from the clients with the least data to those with the most.

    As many clients in each as in any other, or one more; of clients with as much data, the lower ids first.
    """
    if count < 1:
        raise ConfigError(f"there is at least 1 population, not {count}")
    ranked = sorted(sizes, key=lambda client: (sizes[client], client))
    return [sorted(part.tolist()) for part in np.array_split(np.asarray(ranked, dtype=np.int64), count)]


def share_clusters(
    shares: ArrayLike, populations: Sequence[Sequence[int]], key: Key | None = None
) -> tuple[tuple[int, ...], ...]:
    """The clients of each server, in the order of ids, from shares[p][j] and the clients of each population.

    How many of a population go to a server is its share of them, rounded down; those left over go to the
    largest remainders, the lesser server first where these are equal. Who goes: in the order of ids, the
    first to server 0; with a key, in an order drawn for the ids, so that who leaves does not change it.
    """
    x = np.asarray(shares, dtype=np.float64)
    if x.ndim != 2 or len(x) != len(populations):
        raise ConfigError(
            f"the shares have the shape {x.shape}, and there are {len(populations)} populations: "
            "give a row for each, with a share for each server"
        )
    if not (np.isfinite(x).all() and (x >= 0).all() and (x.sum(axis=1) > 0).all()):
        raise ConfigError("shares must be 0 or more, finite, and not all 0 in a population")
    everybody = [client for clients in populations for client in clients]
    if len(set(everybody)) < len(everybody):
        twice = sorted({client for client in everybody if everybody.count(client) > 1})
        raise ConfigError(f"clients {twice} are in the populations more than once")
    servers: list[list[int]] = [[] for _ in range(x.shape[1])]
    for row, clients in zip(x.tolist(), populations, strict=True):
        queue = sorted(clients)
        if key is not None:
            queue = [queue[i] for i in key.child("shares").order(queue)]
        for server, count in enumerate(_whole(row, len(queue))):
            servers[server] += queue[:count]
            queue = queue[count:]
    return tuple(tuple(sorted(clients)) for clients in servers)


def _whole(row: Sequence[float], total: int) -> list[int]:
    """Whole numbers in the proportions of a row that add up to the total: the largest remainders."""
    parts = [Fraction(share) for share in row]
    exact = [total * part / sum(parts) for part in parts]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(row)), key=lambda j: (counts[j] - exact[j], j))
    for j in by_remainder[: total - sum(counts)]:
        counts[j] += 1
    return counts
