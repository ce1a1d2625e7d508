"""Influence trees: the global model at the root, one client at each leaf, sub-federations between.

After "Exact federated unlearning" (BMT and MMT), section 3.2. A tree is flat: the clients from left to
right, and for every node the slice of them that it covers. A tree of 10,000 clients may be 10,000
deep, so nothing here calls itself, and no node keeps a set of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Real
from operator import index

from unknot.core.errors import ConfigError
from unknot.core.form import plain_data
from unknot.topology.probabilities import distinct, listed, weigh


@plain_data
@dataclass(frozen=True)
class Tree:
    """Nodes in preorder, children by their least member: equal trees have equal fields.

    The tree of no clients is empty and false; the tree of one client is a root that is a leaf.
    """

    order: tuple[int, ...] = ()
    """The clients, leaves from left to right."""
    starts: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    """Node i covers ``order[starts[i]:stops[i]]``. Node 0 is the root."""
    parents: tuple[int, ...] = ()
    """The node above each; -1 for the root. A parent comes before its children."""

    def __bool__(self) -> bool:
        return bool(self.order)

    def __len__(self) -> int:
        """How many nodes there are, root and leaves among them."""
        return len(self.parents)

    @property
    def clients(self) -> frozenset[int]:
        return frozenset(self.order)

    @property
    def levels(self) -> list[int]:
        """Edges between the root and each node."""
        levels: list[int] = []
        for parent in self.parents:
            levels.append(levels[parent] + 1 if parent >= 0 else 0)
        return levels

    @property
    def depth(self) -> int:
        """Edges from the root to the deepest leaf."""
        return max(self.levels, default=0)

    @property
    def inner(self) -> int:
        """How many sub-federations there are: neither root nor leaf."""
        return sum(stop - start > 1 for start, stop in zip(self.starts[1:], self.stops[1:], strict=True))

    @property
    def arities(self) -> list[int]:
        """How many children each node has."""
        counts = [0] * len(self)
        for parent in self.parents[1:]:
            counts[parent] += 1
        return counts

    def children(self) -> list[list[int]]:
        """The nodes below each node, from left to right."""
        below: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                below[parent].append(node)
        return below

    def members(self, node: int) -> tuple[int, ...]:
        return self.order[self.starts[node] : self.stops[node]]

    def sets(self) -> list[frozenset[int]]:
        """Every node's members: root first, parents before children, leaves included."""
        return [frozenset(self.members(node)) for node in range(len(self))]

    @staticmethod
    def of(sets: Iterable[Iterable[int]]) -> Tree:
        """The tree of a family of member sets, the root among them; missing leaves are added."""
        return from_sets(sets)


def plant(parents: Sequence[int], clients: Sequence[int | None]) -> Tree:
    """A tree from each node's parent (-1 for the root) and each leaf's client, in any order."""
    below: list[list[int]] = [[] for _ in parents]
    root = -1
    for node, parent in enumerate(parents):
        if parent < 0:
            root = node
        else:
            below[parent].append(node)
    if root < 0:
        return Tree()
    down = [root]
    for node in down:  # grows while it is walked: parents before children
        down += below[node]
    least = [-1 if client is None else client for client in clients]
    size = [0 if client is None else 1 for client in clients]
    for node in reversed(down):
        if below[node]:
            below[node].sort(key=least.__getitem__)
            least[node] = least[below[node][0]]
            size[node] = sum(size[child] for child in below[node])
    order: list[int] = []
    starts: list[int] = []
    stops: list[int] = []
    above: list[int] = []
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        place = len(above)
        above.append(parent)
        starts.append(len(order))
        stops.append(len(order) + size[node])
        client = clients[node]
        if client is not None:
            order.append(client)
        stack += [(child, place) for child in reversed(below[node])]
    return Tree(tuple(order), tuple(starts), tuple(stops), tuple(above))


def from_sets(sets: Iterable[Iterable[int]]) -> Tree:
    """See `Tree.of`."""
    family = sorted({distinct(s) for s in sets}, key=lambda s: (-len(s), s))
    if not family:
        return Tree()
    root = family[0]
    if not family[-1]:
        raise ConfigError("a tree has an empty node: every node has at least one client")
    parents, leaf_of = [-1], [None if len(root) > 1 else root[0]]
    smallest = dict.fromkeys(root, 0)  # the smallest node so far around each client
    leaves = {s[0] for s in family if len(s) == 1}
    for members in family[1:] + [(c,) for c in root if c not in leaves]:
        strangers = [c for c in members if c not in smallest]
        if strangers:
            raise ConfigError(
                f"the tree has no root: no node has all its clients; the largest is {listed(root)}, "
                f"without client {strangers[0]}. Add the set of all clients"
            )
        around = {smallest[c] for c in members}
        if len(around) > 1:
            other = family[max(around)]
            raise ConfigError(
                f"nodes {listed(members)} and {listed(other)} share clients and neither holds the other: "
                "their clients would influence both (double influence). Nest the sets or keep them apart"
            )
        for c in members:
            smallest[c] = len(parents)
        parents.append(around.pop())
        leaf_of.append(members[0] if len(members) == 1 else None)
    return plant(parents, leaf_of)


def cost(tree: Tree, weights: Mapping[int, int]) -> int:
    """Σ over nodes of (children - 1) × weight of its members: the score, in whole numbers."""
    sums = [0, *accumulate(weights[c] for c in tree.order)]
    nodes = zip(tree.arities, tree.starts, tree.stops, strict=True)
    return sum((arity - 1) * (sums[stop] - sums[start]) for arity, start, stop in nodes if arity)


def score(tree: Tree, probabilities: Mapping[int, Real | float] | None = None) -> float:
    """The influence degradation score: how many models are aggregated when a client leaves, on average.

    Probabilities say who leaves next and are scaled to add up to 1; without them all are alike.
    """
    if not tree:
        return 0.0
    weights = weigh(tree.order, probabilities)
    return float(Fraction(cost(tree, weights), sum(weights.values())))


def aggregated(tree: Tree, client: int) -> int:
    """How many models are aggregated when this client leaves: the siblings along its path."""
    if client not in tree.order:
        raise ConfigError(f"client {client} is not in the tree, which has {listed(sorted(tree.order))}")
    at = tree.order.index(client)
    nodes = zip(tree.arities, tree.starts, tree.stops, strict=True)
    return sum(arity - 1 for arity, start, stop in nodes if arity and start <= at < stop)


def parts(members: Iterable[int], trained: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """The largest trained sets inside `members`, by their least member: what a node is restarted from."""
    inside = frozenset(members)
    fitting = sorted(
        {s for s in map(frozenset, trained) if s and s <= inside}, key=lambda s: (-len(s), min(s))
    )
    around: dict[int, list[frozenset[int]]] = {}
    largest = []
    for part in fitting:
        if any(part < other for other in around.get(min(part), ())):
            continue
        largest.append(part)
        for c in part:
            around.setdefault(c, []).append(part)
    return sorted(largest, key=lambda s: (min(s), sorted(s)))


def client_ids(clients: Iterable[int]) -> tuple[int, ...]:
    """The clients in the order of their ids, each named once."""
    ids = sorted(index(c) for c in clients)
    for first, second in pairwise(ids):
        if first == second:
            raise ConfigError(f"client {first} is named twice")
    return tuple(ids)
