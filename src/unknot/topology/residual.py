"""The exact solver behind `assign`: shortest paths among the clusters, with costs of any size.

A membership of rating rank r costs B^r with B > K·N, as an integer of Python: a sum of them is then a
number whose digits count the memberships of each rank, and the least sum is the lexicographic minimum.

The problem is a minimum-cost circulation hub → client → cluster → hub: 1..c1 units through a client,
c2..c3 through a cluster, 0 or 1 between them. Clients are many and clusters few, so a path is sought
among the clusters and the hub alone, N + 1 nodes. Its arcs are the cheapest changes of one client:

- n → m: a member of n goes to m instead (cost B^D_km − B^D_kn),
- hub → m: a client below c1 joins m as well; m → hub: a member of m with other clusters leaves it,
- m → hub and hub → m for free, while m has room up to c3, or down to c2.

Every client begins where it likes best, which is optimal but for the bounds of clusters. Surplus then
flows along shortest paths to where clients are missing, which keeps it optimal (successive shortest
paths, with potentials), until every bound is met.
"""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


class Arc:
    """Clients that can make one kind of change, by its cost; who no longer can is dropped late."""

    __slots__ = ("buckets", "costs")

    def __init__(self) -> None:
        self.buckets: dict[int, list[int]] = {}
        self.costs: list[int] = []  # a heap of the buckets' keys

    def put(self, key: int, client: int) -> None:
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = [client]
            heapq.heappush(self.costs, key)
        else:
            bucket.append(client)

    def fill(self, keys: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
        """Many at once, into an empty arc. The first client ends up on top of its bucket."""
        if not len(keys):
            return
        order = np.argsort(keys, kind="stable")[::-1]
        keys, names = keys[order], clients[order].tolist()
        starts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(names)]
        for start, stop in pairwise(starts):
            self.buckets[int(keys[start])] = names[start:stop]
        self.costs = sorted(self.buckets)


class Residual:
    """An assignment on its way to the optimum, and what may still be changed in it."""

    def __init__(self, ranks: NDArray[np.int64], c1: int, c2: int, c3: int) -> None:
        clients, clusters = ranks.shape
        self.c1, self.c2, self.c3 = c1, c2, c3
        self.hub = clusters
        self.rows: list[list[int]] = ranks.tolist()
        top = int(ranks.max()) + 1
        digits = (clients * clusters).bit_length()  # B = 2^digits > K·N
        self.price = [1 << (digits * rank) for rank in range(top)]
        # An exchange of rank b for rank a has one number, and these are ordered as the costs are: where
        # a > b by a, then by falling b. The hub's arcs use the rank alone, or its negative.
        up, down = np.indices((top, top))
        rise, fall = up * top + (top - down), down * top + (top - up)
        table = np.where(up > down, rise, np.where(up < down, -fall, 0)).astype(np.int64)
        self.keys: list[list[int]] = table.tolist()
        self.change: dict[int, int] = {
            self.keys[a][b]: self.price[a] - self.price[b] for a in range(top) for b in range(top)
        }

        first = ranks.argmin(1)
        self.member: list[list[int]] = [[n] for n in first.tolist()]
        nodes = range(clusters + 1)
        self.arcs = [[Arc() for _ in nodes] for _ in nodes]
        everyone = np.arange(clients, dtype=np.int64)
        for n in range(clusters):
            here, elsewhere = everyone[first == n], everyone[first != n]
            for m in range(clusters):
                if m != n:
                    self.arcs[n][m].fill(table[ranks[here, m], ranks[here, n]], here)
            if c1 > 1:
                self.arcs[self.hub][n].fill(ranks[elsewhere, n], elsewhere)

        count = np.bincount(first, minlength=clusters)
        flow = count.clip(c2, c3)
        self.flow: list[int] = flow.tolist()
        """What goes from each cluster to the hub: its size once its surplus is gone."""
        self.surplus: list[int] = [*(count - flow).tolist(), int(flow.sum()) - clients]
        self.costs: list[list[int | None]] = [[None] * (clusters + 1) for _ in nodes]
        self.potentials = [0] * (clusters + 1)

    def solve(self) -> list[tuple[int, ...]]:
        """The clusters of each client, in the optimum."""
        dirty = set(range(self.hub + 1))
        while max(self.surplus) > 0:
            for n in dirty:
                self.costs[n] = [self._cheapest(n, m)[0] if m != n else None for m in range(self.hub + 1)]
            dirty = self._push(self._shortest())
        return [tuple(sorted(clusters)) for clusters in self.member]

    def _cheapest(self, n: int, m: int) -> tuple[int | None, int | None]:
        """What a unit from n to m costs (None: there is no way), and the client it changes (None: no one)."""
        hub = self.hub
        if n == hub:
            if self.flow[m] > self.c2:
                return 0, None
            key, client = self._top(n, m)
            return (None if client is None else self.price[key]), client
        if m == hub:  # leaving is a gain, room is free: leaving comes first
            key, client = self._top(n, m)
            if client is not None:
                return -self.price[-key], client
            return (0 if self.flow[n] < self.c3 else None), None
        key, client = self._top(n, m)
        return (None if client is None else self.change[key]), client

    def _top(self, n: int, m: int) -> tuple[int, int | None]:
        arc, member, hub = self.arcs[n][m], self.member, self.hub
        while arc.costs:
            key = arc.costs[0]
            bucket = arc.buckets[key]
            while bucket:
                client = bucket[-1]
                of = member[client]
                if n == hub:
                    able = m not in of and len(of) < self.c1
                elif m == hub:
                    able = n in of and len(of) > 1
                else:
                    able = n in of and m not in of
                if able:
                    return key, client
                bucket.pop()
            del arc.buckets[key]
            heapq.heappop(arc.costs)
        return 0, None

    def _shortest(self) -> list[int]:
        """A shortest path from a surplus to a deficit (Dijkstra: reduced costs are never negative)."""
        nodes = range(self.hub + 1)
        potentials, surplus = self.potentials, self.surplus
        distance: list[int | None] = [0 if surplus[v] > 0 else None for v in nodes]
        before = [-1] * (self.hub + 1)
        open_ = set(nodes)
        while True:
            u, near = -1, 0
            for v in open_:
                d = distance[v]
                if d is not None and (u < 0 or d < near):
                    u, near = v, d
            assert u >= 0, "bounds that are checked leave a way"
            open_.discard(u)
            if surplus[u] < 0:
                break
            base = near + potentials[u]
            row = self.costs[u]
            for v in open_:
                cost = row[v]
                if cost is not None:
                    reach, d = base + cost - potentials[v], distance[v]
                    if d is None or reach < d:
                        distance[v], before[v] = reach, u
        for v in nodes:
            d = distance[v]
            potentials[v] += near if d is None or d > near else d
        path = [u]
        while before[path[-1]] >= 0:
            path.append(before[path[-1]])
        return path[::-1]

    def _push(self, path: list[int]) -> set[int]:
        """Units along the path while it costs the same. Returns the nodes whose arcs may have changed."""
        steps = list(pairwise(path))
        costs = [self.costs[n][m] for n, m in steps]
        start, end = path[0], path[-1]
        dirty = {*path, self.hub}
        while self.surplus[start] > 0 and self.surplus[end] < 0:
            found = [self._cheapest(n, m) for n, m in steps]
            if [cost for cost, _ in found] != costs:
                break
            for (n, m), (_, client) in zip(steps, found, strict=True):
                if client is not None:
                    dirty.update(self.member[client])
                    self._change(client, n, m)
                elif m == self.hub:
                    self.flow[n] += 1
                else:
                    self.flow[m] -= 1
            self.surplus[start] -= 1
            self.surplus[end] += 1
        return dirty

    def _change(self, client: int, n: int, m: int) -> None:
        """The client leaves n (unless that is the hub) and joins m (likewise); its new ways are noted."""
        hub, of, row, keys, arcs = self.hub, self.member[client], self.rows[client], self.keys, self.arcs
        old = len(of)
        if n != hub:
            of.remove(n)
        if m != hub:
            of.append(m)
            for j in range(hub):
                if j not in of:
                    arcs[m][j].put(keys[row[j]][row[m]], client)
        if n != hub:
            for i in of:
                if i != m:
                    arcs[i][n].put(keys[row[n]][row[i]], client)
        now = len(of)
        if now > 1:  # it may leave any of them: the one that is new, or all if it was in one before
            for i in of if old == 1 else [m] if m != hub else []:
                arcs[i][hub].put(-row[i], client)
        if now < self.c1:
            for j in range(hub) if old == self.c1 else [n] if n != hub else []:
                if j not in of:
                    arcs[hub][j].put(row[j], client)
