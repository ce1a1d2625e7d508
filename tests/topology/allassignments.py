"""Two plain twins: every assignment of a few clients, written out, and the paper's objective as a flow."""

from functools import cache
from itertools import combinations, product

import networkx as nx
import numpy as np


@cache
def memberships(clients: int, clusters: int, c1: int) -> np.ndarray:
    """All x, one row each: [x, client, cluster], every client in 1..c1 clusters."""
    sets = [s for size in range(1, c1 + 1) for s in combinations(range(clusters), size)]
    rows = np.zeros((len(sets), clusters), dtype=bool)
    for i, s in enumerate(sets):
        rows[i, list(s)] = True
    picks = np.array(list(product(range(len(sets)), repeat=clients)))
    return rows[picks]


def ordered(ratings: np.ndarray, c1: int) -> tuple[np.ndarray, np.ndarray]:
    """All x from the best to the worst, and their vectors D x sorted descending.

    By that vector, then by the number of memberships.
    """
    x = memberships(*ratings.shape, c1)
    vectors = -np.sort(-(x * ratings).reshape(len(x), -1), axis=1)
    order = np.lexsort([x.sum((1, 2)), *vectors.T[::-1]])
    return x[order], vectors[order]


def first_within(x: np.ndarray, c2: int, c3: int) -> int | None:
    """The place of the first x whose clusters hold c2..c3 clients."""
    sizes = x.sum(1)
    places = np.flatnonzero((sizes >= c2).all(1) & (sizes <= c3).all(1))
    return int(places[0]) if len(places) else None


def vector(ratings: np.ndarray, chosen: list[tuple[int, ...]]) -> list[int]:
    """D x over all pairs, sorted descending."""
    found = [int(ratings[k, n]) for k, of in enumerate(chosen) for n in of]
    return sorted(found + [0] * (ratings.size - len(found)), reverse=True)


def valid(ratings: np.ndarray, chosen: list[tuple[int, ...]], c1: int, c2: int, c3: int) -> bool:
    clients, clusters = ratings.shape
    sizes = [sum(n in of for of in chosen) for n in range(clusters)]
    each = all(1 <= len(of) <= c1 and len(set(of)) == len(of) for of in chosen)
    return len(chosen) == clients and each and all(c2 <= size <= c3 for size in sizes)


def by_flow(ratings: np.ndarray, c1: int, c2: int, c3: int) -> list[tuple[int, ...]]:
    """Σ (KN)^(D x), the paper's sum, minimised over integers of any size by networkx's simplex.

    A pair that is not chosen gives (KN)^0 = 1, so choosing it costs (KN)^D − 1. A bound from below is
    met by demands at both ends of its edge.
    """
    clients, clusters = ratings.shape
    base = clients * clusters
    graph = nx.DiGraph()
    demand = {"hub": 0}

    def edge(u, v, low, high):
        graph.add_edge(u, v, capacity=high - low, weight=0)
        demand[u] = demand.get(u, 0) + low
        demand[v] = demand.get(v, 0) - low

    for k in range(clients):
        edge("hub", ("client", k), 1, c1)
        for n in range(clusters):
            graph.add_edge(("client", k), ("cluster", n), capacity=1, weight=base ** int(ratings[k, n]) - 1)
    for n in range(clusters):
        edge(("cluster", n), "hub", c2, c3)
    for node, need in demand.items():
        graph.nodes[node]["demand"] = need
    _, flow = nx.network_simplex(graph)
    return [
        tuple(n for n in range(clusters) if flow["client", k].get(("cluster", n), 0)) for k in range(clients)
    ]
