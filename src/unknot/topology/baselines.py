"""What KNOT's clusters are compared with: clusters at random, and clusters of similar updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.core.keys import Key

STARTS = 4  # the best of so many
ROUNDS = 100


def random_clusters(clients: Iterable[int], clusters: int, key: Key) -> list[tuple[int, ...]]:
    """The members of each cluster, drawn at random; sizes differ by one at most.

    The order in which the clients are named does not matter.
    """
    ids = np.array(sorted(set(clients)), dtype=np.int64)
    _check(len(ids), clusters)
    drawn = ids[key.child("clusters").order(ids)]
    return [tuple(sorted(drawn[n::clusters].tolist())) for n in range(clusters)]


def similar_clusters(
    vectors: ArrayLike | Mapping[int, ArrayLike], clusters: int, key: Key
) -> list[tuple[int, ...]]:
    """The members of each cluster, where updates that point the same way are together.

    `vectors` are the clients' updates, by client or as rows; only their directions count. Spherical
    k-means: the first centre is drawn, the next are the clients farthest from those before, then members
    and mean directions are found in turn; of a few such starts the closest is taken. No cluster is
    empty, and the order of the clients does not matter. Clusters are in the order of their least member.
    """
    if not isinstance(vectors, Mapping):
        vectors = dict(enumerate(np.asarray(vectors, dtype=np.float64)))
    ids = np.array(sorted(vectors), dtype=np.int64)
    _check(len(ids), clusters)
    rows = [np.asarray(vectors[client], dtype=np.float64).ravel() for client in ids.tolist()]
    for client, row in zip(ids.tolist(), rows, strict=True):
        if len(row) != len(rows[0]):
            raise ConfigError(
                f"the update of client {client} has {len(row)} numbers, that of client "
                f"{ids[0]} has {len(rows[0])}"
            )
        if not np.isfinite(row).all():
            raise ConfigError(f"the update of client {client} has numbers that are not finite")
    units = np.stack(rows)
    units = _unit(units / np.maximum(np.abs(units).max(1, keepdims=True, initial=0.0), 1e-300))
    best: tuple[float, NDArray[np.int64]] | None = None
    for start in range(STARTS):
        found = _means(units, ids, clusters, key.child("similar", clusters, start))
        if best is None or found[0] > best[0] + 1e-12:
            best = found
    assert best is not None
    groups = [tuple(ids[best[1] == n].tolist()) for n in range(clusters)]
    return sorted(groups)


def _means(
    units: NDArray[np.float64], ids: NDArray[np.int64], clusters: int, key: Key
) -> tuple[float, NDArray[np.int64]]:
    """How close the members are to their centres (the greater the closer), and the cluster of each."""
    place = key.order(ids)
    centres = [int(place[0])]
    rank = np.empty(len(ids), dtype=np.int64)
    rank[place] = np.arange(len(ids))
    while len(centres) < clusters:
        likeness = (units @ units[centres].T).max(1)
        likeness[centres] = np.inf
        centres.append(int(np.lexsort((rank, likeness))[0]))
    middle = units[centres]
    members = np.full(len(ids), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        likeness = units @ middle.T
        chosen = likeness.argmax(1)
        sizes = np.bincount(chosen, minlength=clusters)
        own = likeness[np.arange(len(ids)), chosen]
        for empty in np.flatnonzero(sizes == 0):  # it takes whoever fits worst where others remain
            worst = min(np.flatnonzero(sizes[chosen] > 1).tolist(), key=lambda i: (own[i], rank[i]))
            sizes[chosen[worst]] -= 1
            chosen[worst], sizes[empty], own[worst] = empty, 1, 1.0
        if (chosen == members).all():
            break
        members = chosen
        middle = _unit(np.stack([units[members == n].sum(0) for n in range(clusters)]))
    return float((units * middle[members]).sum()), members


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)  # no direction stays none


def _check(clients: int, clusters: int) -> None:
    if isinstance(clusters, bool) or not isinstance(clusters, int | np.integer) or clusters < 1:
        raise ConfigError(f"the clusters are {clusters!r}: it must be a whole number, 1 or more")
    if clusters > clients:
        raise ConfigError(f"{clusters} clusters for {clients} clients: some would be empty; ask for fewer")
