"""KNOT's assignment of clients to clusters: the worst match as good as can be, then the second worst..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.topology.residual import Residual


@dataclass(frozen=True)
class Bounds:
    """Each client is in 1..c1 clusters, each cluster holds c2..c3 clients."""

    c1: int
    c2: int
    c3: int

    @staticmethod
    def of(clients: int, clusters: int, c1: int = 1, c2: int | None = None, c3: int | None = None) -> Bounds:
        """The paper's c2 = K/2N, rounded down, and c3 = K/2, rounded up, where they are not given.

        To the looser side, so that they can always be met; for the same reason c3 is K for one cluster,
        and one of the two gives way where only the other is given and they would cross.
        """
        for name, bound in (("c1", c1), ("c2", c2), ("c3", c3)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | np.integer)):
                raise ConfigError(f"{name} is {bound!r}: it must be a whole number")
        if c1 < 1:
            raise ConfigError(f"c1 is {c1}: every client is in at least one cluster, so it must be 1 or more")
        if c2 is not None and c2 < 0:
            raise ConfigError(f"c2 is {c2}: a cluster cannot hold fewer than 0 clients")
        if c3 is not None and c3 < 1:
            raise ConfigError(f"c3 is {c3}: a cluster must have room for a client, so it must be 1 or more")
        if c2 is None:
            c2 = clients // (2 * clusters)
            c2 = c2 if c3 is None else min(c2, c3)
        if c3 is None:
            c3 = max(-(-clients // 2), -(-clients // clusters), c2)
        if c2 > c3:
            raise ConfigError(f"c2 is {c2} and c3 is {c3}: a cluster holds c2 to c3 clients, so c2 <= c3")
        if c2 > clients:
            raise ConfigError(f"c2 is {c2}: a cluster cannot hold that many of {clients} clients; lower c2")
        if clients > clusters * c3:
            raise ConfigError(
                f"c3 is {c3}: {clusters} clusters of at most {c3} have no room for {clients} clients; "
                f"raise c3 to {-(-clients // clusters)} or more"
            )
        c1 = min(c1, clusters)  # more than all clusters is all of them
        if clients * c1 < clusters * c2:
            raise ConfigError(
                f"c2 is {c2}: {clusters} clusters of at least {c2} need {clusters * c2} memberships, and "
                f"{clients} clients in at most {c1} each give {clients * c1}; lower c2 to "
                f"{clients * c1 // clusters} or raise c1"
            )
        return Bounds(int(c1), int(c2), int(min(c3, clients)))


def assign(
    ratings: ArrayLike, c1: int = 1, c2: int | None = None, c3: int | None = None
) -> list[tuple[int, ...]]:
    """The clusters of each client, counted from 0: the lexicographic minimum, exactly.

    `ratings[k, n]` says how badly client k fits cluster n, in whole numbers from 0, where 0 is free. Each
    client is in 1..c1 clusters, each cluster holds c2..c3 clients (see `Bounds` for what is taken where
    they are not given). Of all such assignments this one has the fewest matches at the worst level, then
    at the next, and so on down to 1; and of those that are equal in this, the fewest memberships.

    What is still open is decided by the ratings, not by the order of rows: the same clients in another
    order get the same clusters. Of clients with the same ratings the earlier rows get the lesser clusters.
    """
    table = _checked(ratings)
    clients, clusters = table.shape
    bounds = Bounds.of(clients, clusters, c1, c2, c3)
    # The solver works on the clients in the order of their ratings: then the rows' order cannot matter.
    order = np.lexsort(table.T[::-1])
    levels, ranks = np.unique(table[order], return_inverse=True)
    # Only the order of levels counts. Rank 0 is for matches that are free.
    ranks = ranks.reshape(table.shape).astype(np.int64) + int(levels[0] > 0)
    found = Residual(ranks, bounds.c1, bounds.c2, bounds.c3).solve()
    alike = np.flatnonzero(np.r_[True, (ranks[1:] != ranks[:-1]).any(1), True]).tolist()
    chosen: list[tuple[int, ...]] = [()] * clients
    places = order.tolist()  # a stable sort: equal rows are in their order
    for start, stop in pairwise(alike):
        group = found[start:stop] if stop - start == 1 else sorted(found[start:stop])
        for place, of in zip(places[start:stop], group, strict=True):
            chosen[place] = of
    return chosen


@dataclass(frozen=True)
class Assignment:
    """Who is in which cluster, and how well that fits."""

    ratings: NDArray[np.int64]
    chosen: Sequence[tuple[int, ...]]
    """The clusters of each client."""

    @cached_property
    def clusters(self) -> list[tuple[int, ...]]:
        """The members of each cluster."""
        members: list[list[int]] = [[] for _ in range(self.ratings.shape[1])]
        for client, of in enumerate(self.chosen):
            for cluster in of:
                members[cluster].append(client)
        return [tuple(m) for m in members]

    @cached_property
    def levels(self) -> dict[int, int]:
        """How many matches there are at each rating, the worst first."""
        found: dict[int, int] = {}
        for client, of in enumerate(self.chosen):
            for cluster in of:
                level = int(self.ratings[client, cluster])
                found[level] = found.get(level, 0) + 1
        return dict(sorted(found.items(), reverse=True))

    def worst(self, cluster: int) -> int | None:
        """The worst rating in a cluster; None if it is empty."""
        members = list(self.clusters[cluster])
        return int(self.ratings[members, cluster].max()) if members else None


def _checked(ratings: ArrayLike) -> NDArray[np.int64]:
    try:
        table = np.asarray(ratings)
    except ValueError:  # rows of unequal length
        raise ConfigError("the ratings are not a table: give every client one rating a cluster") from None
    if table.ndim != 2 or 0 in table.shape:
        raise ConfigError(
            f"the ratings have the shape {table.shape}: they need a row for each client and a column for "
            "each cluster, at least one of both"
        )
    if table.dtype.kind not in "iu":
        raise ConfigError(
            f"the ratings are {table.dtype}: they must be whole numbers, as ratings() gives them"
        )
    if table.min() < 0:
        client, cluster = np.argwhere(table < 0)[0]
        raise ConfigError(
            f"the rating of client {client} for cluster {cluster} is {table[client, cluster]}: it must not "
            "be negative"
        )
    return table.astype(np.int64)
