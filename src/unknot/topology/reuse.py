"""A new tree around trained sub-federations: least score, most reuse.

Once it is decided which trained sets the tree keeps, the best tree is nested: inside each kept set, and
at the root, Huffman's over its largest kept subsets and single clients. Which sets to keep is a search.
A set that costs nothing alone may cost something beside another: of seven equal clients, {1, 2, 3} and
{4, 5, 6} can each be in a tree of score 20/7, together only in one of 21/7.

Whole numbers throughout: the goal is A × cost - B × (sets kept), with A so large that, at `reuse` 0, no
number of sets makes up for a dearer tree.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from numbers import Real

from unknot.core.errors import ConfigError
from unknot.topology.huffman import depths, huffman_cost
from unknot.topology.probabilities import distinct, weigh
from unknot.topology.tree import Tree, client_ids, from_sets, plant

SETS = 300  # trained sets under one node up to which all choices are searched
WORK = 400_000  # items handled before the exact search gives up
MORE_WORK = 3_000_000  # items handled after that to add sets one by one


def rebuild_proven(
    clients: Iterable[int],
    trained: Iterable[Iterable[int]],
    probabilities: Mapping[int, Real | float] | None = None,
    reuse: float = 0.0,
) -> tuple[Tree, bool]:
    """The tree that `rebuild` gives, and whether it is proven to be the best."""
    if math.isnan(reuse) or reuse < 0:
        raise ConfigError(f"reuse is {reuse!r}: what a reused sub-federation is worth is 0 or more")
    ids = client_ids(clients)
    weights = weigh(ids, probabilities)
    if len(ids) < 3:
        return from_sets([ids] if ids else []), True
    known = frozenset(ids)
    family = {s for s in map(distinct, trained) if 1 < len(s) < len(ids) and known.issuperset(s)}
    search = _Search(from_sets([ids, *family]), weights, reuse)
    kept, proven = search.choose()
    return search.grow(kept), proven


class _Enough(Exception):
    """The work limit is reached."""


class _Search:
    """Which nodes of `tree`, whose inner nodes are the trained sets, to keep."""

    def __init__(self, tree: Tree, weights: dict[int, int], reuse: float) -> None:
        self.tree = tree
        self.weights = weights
        self.below = tree.children()
        self.sums = [0, *accumulate(weights[c] for c in tree.order)]
        self.sets = [v for v in range(1, len(tree)) if self.below[v]]
        self.reuse = reuse
        self.hopeless: set[int] = set()  # sets that no tree of Huffman's score can have
        worth = Fraction(0) if math.isinf(reuse) else Fraction(repr(float(reuse)))
        big = len(self.sets) + 1
        self.a = worth.denominator * big
        self.b = worth.numerator * self.sums[-1] * big + 1
        self.work = 0

    # What is known of a node.

    def weight(self, node: int) -> int:
        return self.sums[self.tree.stops[node]] - self.sums[self.tree.starts[node]]

    def bag(self, node: int, bags: Mapping[int, Counter[int]]) -> Counter[int]:
        """The items of a node as weight → how many: children without a bag are one item, others theirs."""
        bag: Counter[int] = Counter()
        for child in self.below[node]:
            if child not in bags:
                bag[self.weight(child)] += 1
            elif bag:
                bag.update(bags[child])
            else:
                bag = bags[child].copy()
        self.spend(len(bag))
        return bag

    def cost(self, bag: Mapping[int, int]) -> int:
        self.spend(len(bag))
        return huffman_cost(bag)

    def spend(self, items: int) -> None:
        self.work -= items + 1
        if self.work < 0:
            raise _Enough

    # The choice.

    def choose(self) -> tuple[set[int], bool]:
        everything = set(self.sets)
        if math.isinf(self.reuse) or not everything:
            return everything, True
        free, settled = self.free()
        if len(free) == len(everything) or (settled and self.reuse == 0):
            return free, True
        self.work = WORK
        try:
            return self.exact(), True
        except _Enough:
            kept = self.greedy(free)
            return kept, not self.reuse and len(kept) + len(self.hopeless) == len(everything)

    def free(self) -> tuple[set[int], bool]:
        """Sets that fit one of Huffman's trees all at once, and whether no other tree fits more.

        Leaves at depths l can be moved under one node if their Σ 2^-l is a power of two. That can be
        done for nested and disjoint sets together, so with the depths given, all such sets are free.
        Where all best trees have the same depths, no other set is.
        """
        deep, low, high = depths(self.weights)
        bottom = max(high.values())
        shares = [0, *accumulate(1 << (bottom - deep[c]) for c in self.tree.order)]
        most = [0, *accumulate(1 << (bottom - low[self.weights[c]]) for c in self.tree.order)]
        least = [0, *accumulate(1 << (bottom - high[self.weights[c]]) for c in self.tree.order)]
        free: set[int] = set()
        for v in self.sets:
            start, stop = self.tree.starts[v], self.tree.stops[v]
            if (shares[stop] - shares[start]).bit_count() == 1:
                free.add(v)
                continue
            lower, upper = least[stop] - least[start], most[stop] - most[start]
            if 1 << (upper.bit_length() - 1) < lower:  # no power of two between them
                self.hopeless.add(v)
        return free, len(free) + len(self.hopeless) == len(self.sets)

    def exact(self) -> set[int]:
        """From the smallest sets up: the best choice inside each, given that it is kept itself."""
        value: dict[int, int] = {}  # the goal inside a kept set, its own part included
        room: dict[int, int] = {}  # the most that can be gained in a set, kept or not
        count: dict[int, int] = {}
        inside: dict[int, list[int]] = {}
        leaves: dict[int, Counter[int]] = {}
        for v in [*reversed(self.sets), 0]:
            subs = [u for u in self.below[v] if self.below[u]]
            count[v] = 1 + sum(count[u] for u in subs)
            leaves[v] = self.bag(v, leaves)
            alone = self.cost(leaves[v])
            best, inside[v] = self.frontier(v, subs, leaves, alone, value, room, count[v])
            value[v] = best - self.b
            room[v] = sum(room[u] for u in subs)
            if self.reuse or v not in self.hopeless:
                room[v] = max(room[v], self.a * alone - value[v])
        kept: set[int] = set()
        stack = [0]
        while stack:
            kept.update(inside[stack[-1]])
            stack += inside[stack.pop()]
        return kept

    def frontier(
        self,
        node: int,
        subs: list[int],
        leaves: Mapping[int, Counter[int]],
        alone: int,
        value: dict[int, int],
        room: dict[int, int],
        count: int,
    ) -> tuple[int, list[int]]:
        """The best largest kept sets inside a node: each is kept, or else its parts are asked."""
        best, chosen = self.a * alone, list[int]()
        bag = leaves[node]
        for u in subs:
            bag = self.contract(bag, leaves[u], u)
        together = self.a * self.cost(bag) + sum(value[u] for u in subs)
        if together < best:
            best, chosen = together, list(subs)
        if best == self.a * alone - sum(room[u] for u in subs):
            return best, chosen
        if count > SETS:
            raise _Enough

        def visit(
            ask: tuple[int, ...], bag: Counter[int], cost: int, spent: int, kept: tuple[int, ...]
        ) -> None:
            nonlocal best, chosen
            goal = self.a * cost + spent
            if goal < best:
                best, chosen = goal, list(kept)
            if not ask or goal - sum(room[u] for u in ask) >= best:
                return
            u, *rest = ask
            if u not in self.hopeless or self.reuse:
                joined = self.contract(bag, leaves[u], u)
                visit((*rest,), joined, self.cost(joined), spent + value[u], (*kept, u))
            parts = [w for w in self.below[u] if self.below[w]]
            visit((*parts, *rest), bag, cost, spent, kept)

        visit(tuple(sorted(subs, key=lambda u: (-room[u], u))), leaves[node], alone, 0, ())
        return best, chosen

    def contract(self, bag: Counter[int], part: Counter[int], node: int) -> Counter[int]:
        """The bag with the items of one part, a node, as one item."""
        bag = bag.copy()
        for weight, many in part.items():
            bag[weight] -= many
            if not bag[weight]:
                del bag[weight]
        bag[self.weight(node)] += 1
        return bag

    # Beyond the limits.

    def greedy(self, free: set[int]) -> set[int]:
        """Start from the free sets and add, the largest first, every set that is worth its price.

        At `reuse` 0 a set that was too dear once stays so, whatever is added later: one pass is enough.
        Above 0, also start from all sets and take away, the smallest first, those not worth it.
        """
        kept, goal = self.add(free)
        if self.reuse:
            fewer, other = self.take_away()
            if other < goal:
                kept = fewer
        return kept

    def add(self, free: set[int]) -> tuple[set[int], int]:
        kept = set(free)
        costs = {0: huffman_cost(Counter(self.weights.values()))}  # what is free changes nothing
        around = {0: 0}  # the smallest kept set that is a node or around it, or the root
        self.work = MORE_WORK if self.reuse else 10 * MORE_WORK
        try:
            bags, costs, loose = self.nested(kept)
            for u in self.by_size():  # from above: what is added changes no bag further down
                above = around[self.tree.parents[u]]
                around[u] = u if u in kept else above
                if u in kept or (u in self.hopeless and not self.reuse):
                    continue
                within = loose[u]
                bag = self.contract(bags[above], within, u)
                new, own = self.cost(bag), self.cost(within)
                if self.a * (new + own - costs[above]) < self.b:
                    kept.add(u)
                    around[u] = u
                    bags[above], costs[above], bags[u], costs[u] = bag, new, within, own
        except _Enough:
            pass
        return kept, self.a * sum(costs.values()) - self.b * len(kept)

    def take_away(self) -> tuple[set[int], int]:
        kept = set(self.sets)
        self.work = MORE_WORK
        bags, costs, _ = self.nested(kept)
        try:
            for u in reversed(self.by_size()):
                above = self.tree.parents[u]  # larger, so still kept
                bag = bags[above] + bags[u]
                bag[self.weight(u)] -= 1
                bag = +bag
                new = self.cost(bag)
                if self.a * (costs[above] + costs[u] - new) > self.b:
                    kept.discard(u)
                    bags[above], costs[above] = bag, new
                    del bags[u], costs[u]
        except _Enough:
            pass
        return kept, self.a * sum(costs.values()) - self.b * len(kept)

    def nested(
        self, kept: set[int]
    ) -> tuple[dict[int, Counter[int]], dict[int, int], dict[int, Counter[int]]]:
        """Bags and costs of the root and the kept sets, and the bags of those others that may be added."""
        asked: set[int] = set()  # sets whose bag is needed, for themselves or for one above
        for v in self.sets:
            hope = self.reuse or v not in self.hopeless
            if v not in kept and (hope or self.tree.parents[v] in asked):
                asked.add(v)
        bags: dict[int, Counter[int]] = {}
        loose: dict[int, Counter[int]] = {}
        for v in [*reversed(self.sets), 0]:
            if v in asked:
                loose[v] = self.bag(v, loose)
            elif v in kept or not v:
                bags[v] = self.items(v, kept, loose)
        return bags, {v: huffman_cost(bag) for v, bag in bags.items()}, loose

    def items(self, node: int, kept: set[int], loose: Mapping[int, Counter[int]]) -> Counter[int]:
        """What Huffman joins inside a kept node: its largest kept sets, and the clients in none."""
        bag: Counter[int] = Counter()
        stack = list(self.below[node])
        while stack:
            v = stack.pop()
            if v in loose:
                bag.update(loose[v])
            elif v in kept or not self.below[v]:
                bag[self.weight(v)] += 1
            else:
                stack += self.below[v]
        return bag

    def by_size(self) -> list[int]:
        return sorted(self.sets, key=lambda v: (self.tree.starts[v] - self.tree.stops[v], v))

    # The tree.

    def grow(self, kept: set[int]) -> Tree:
        """Nested Huffman: the kept sets from the smallest up, then the root."""
        tree = self.tree
        parents = [-1] * len(tree)
        clients = [tree.order[tree.starts[v]] if not self.below[v] else None for v in range(len(tree))]
        used = [True] * len(tree)
        least = [min(tree.members(v)) if v in kept else clients[v] or 0 for v in range(len(tree))]
        for v in range(len(tree) - 1, -1, -1):
            if not self.below[v]:
                continue
            if v and v not in kept:
                used[v] = False
                continue
            heap = []
            stack = list(self.below[v])
            while stack:
                u = stack.pop()
                if u in kept or not self.below[u]:
                    heap.append((self.weight(u), tree.stops[u] - tree.starts[u], least[u], u))
                else:
                    stack += self.below[u]
            heapq.heapify(heap)
            while len(heap) > 1:
                one, two = heapq.heappop(heap), heapq.heappop(heap)
                node = v if not heap else len(parents)
                if heap:
                    parents.append(-1)
                    clients.append(None)
                    used.append(True)
                parents[one[3]] = parents[two[3]] = node
                heapq.heappush(heap, (one[0] + two[0], one[1] + two[1], min(one[2], two[2]), node))
                if node == v:
                    break
        place = dict(zip((v for v in range(len(parents)) if used[v]), range(len(parents)), strict=False))
        return plant(
            [place[parents[v]] if parents[v] >= 0 else -1 for v in place], [clients[v] for v in place]
        )
