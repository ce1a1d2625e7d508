"""The kinds of influence tree, by name."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Real

from unknot.core.errors import ConfigError, nearest
from unknot.topology import budget as budgets
from unknot.topology.probabilities import check_names, exact, weigh
from unknot.topology.tree import Tree, client_ids, plant


@dataclass(frozen=True)
class Plan:
    """What a tree is built from."""

    weights: dict[int, int]
    """By client, in the order of ids."""
    expires: dict[int, Fraction] | None = None
    branching: int = 2
    budget: int | None = None


def build(
    kind: str,
    clients: Iterable[int],
    *,
    probabilities: Mapping[int, Real | float] | None = None,
    expires: Mapping[int, Real | float] | None = None,
    branching: int = 2,
    budget: int | None = None,
) -> Tree:
    """The tree of that kind over these clients; the order in which they are named does not matter.

    `probabilities` say who leaves next (scaled to add up to 1; none: all alike), `expires` when each
    leaves (for greedy), `branching` how many children a node may have (for b-ary), `budget` how many
    sub-federations there may be (for budget).
    """
    if kind not in KINDS:
        raise ConfigError(f"no influence tree is called {kind!r}.{nearest(kind, KINDS)}")
    ids = client_ids(clients)
    ends = None
    if expires is not None:
        check_names(ids, expires, "expiry")
        ends = {c: exact(expires[c], f"the expiry of client {c}") for c in ids}
    return KINDS[kind](Plan(weigh(ids, probabilities), ends, branching, budget))


def huffman(plan: Plan) -> Tree:
    """The least score of all trees: join the two lightest, again and again."""
    return merge(plan.weights, [2] * (len(plan.weights) - 1))


def best_within(
    clients: Iterable[int], budget: int, probabilities: Mapping[int, Real | float] | None = None
) -> tuple[Tree, bool]:
    """The best tree with at most `budget` sub-federations, and whether it is proven to be the best."""
    return _within(weigh(client_ids(clients), probabilities), budget)


def _within(weights: dict[int, int], budget: int) -> tuple[Tree, bool]:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ConfigError(f"the budget is {budget!r}: it is a number of sub-federations, 0 or more")
    arities, proven = budgets.arities(sorted(weights.values()), budget)
    return merge(weights, arities), proven


def _budget(plan: Plan) -> Tree:
    """The best tree with at most so many sub-federations."""
    if plan.budget is None:
        raise ConfigError("the tree 'budget' needs a budget: how many sub-federations there may be")
    return _within(plan.weights, plan.budget)[0]


def _star(plan: Plan) -> Tree:
    """All leaves under the root, no sub-federations: BMT."""
    count = len(plan.weights)
    return merge(plan.weights, [count] if count > 1 else [])


def _balanced(plan: Plan) -> Tree:
    """Halves, in the order of ids."""
    return _split(list(plan.weights), lambda start, stop: [start + (stop - start + 1) // 2])


def _b_ary(plan: Plan) -> Tree:
    """Up to b equal parts, in the order of ids."""
    b = plan.branching
    if isinstance(b, bool) or not isinstance(b, int) or b < 1:
        raise ConfigError(f"the branching is {b!r}: it is a number of children, 2 or more")
    if b == 1:
        raise ConfigError(
            "a branching of 1 leaves nothing to aggregate when a client leaves: that is retraining "
            "from scratch, the method rfs. Use 2 or more"
        )

    def cuts(start: int, stop: int) -> list[int]:
        count = stop - start
        share, more = divmod(count, min(b, count))
        sizes = [share + 1] * more + [share] * (min(b, count) - more)
        return [start + done for done in accumulate(sizes)][:-1]

    return _split(list(plan.weights), cuts)


def _shannon_fano(plan: Plan) -> Tree:
    """By falling probability, cut where the sums of both sides are closest."""
    order = sorted(plan.weights, key=lambda c: (-plan.weights[c], c))
    sums = [0, *accumulate(plan.weights[c] for c in order)]

    def cut(start: int, stop: int) -> list[int]:
        twice = sums[start] + sums[stop]
        if sums[start] == sums[stop]:  # nobody here will leave: any cut is as good, halves are the flattest
            return [(start + stop + 1) // 2]
        after = bisect_left(sums, -(-twice // 2), start + 1, stop - 1)
        before = max(after - 1, start + 1)
        return [before if abs(2 * sums[before] - twice) <= abs(2 * sums[after] - twice) else after]

    return _split(order, cut)


def _greedy(plan: Plan) -> Tree:
    """Who leaves first sits nearest the root, for subscriptions that end on known days."""
    if plan.expires is None:
        raise ConfigError("the tree 'greedy' needs to know when each client leaves: give expires")
    ends = plan.expires
    order = sorted(plan.weights, key=lambda c: (ends[c], -plan.weights[c], c))
    return _split(order, lambda start, stop: [start + 1])


KINDS: dict[str, Callable[[Plan], Tree]] = {
    "huffman": huffman,
    "shannon-fano": _shannon_fano,
    "balanced": _balanced,
    "b-ary": _b_ary,
    "greedy": _greedy,
    "budget": _budget,
    "star": _star,
}


def _split(order: Sequence[int], cuts: Callable[[int, int], list[int]]) -> Tree:
    """From the top: cut the whole where `cuts` says, then each piece."""
    parents: list[int] = []
    clients: list[int | None] = []
    stack = [(0, len(order), -1)] if order else []
    while stack:
        start, stop, parent = stack.pop()
        node = len(parents)
        parents.append(parent)
        clients.append(order[start] if stop - start == 1 else None)
        if stop - start > 1:
            edges = [start, *cuts(start, stop), stop]
            stack += [(a, b, node) for a, b in pairwise(edges)]
    return plant(parents, clients)


def merge(weights: Mapping[int, int], arities: Sequence[int]) -> Tree:
    """From the bottom: join the lightest items, as many as each arity says.

    Among equals, those with fewer clients come first (it keeps the tree flat), then the least id.
    """
    heap = [(weight, 1, client, node) for node, (client, weight) in enumerate(sorted(weights.items()))]
    clients: list[int | None] = [client for _, _, client, _ in heap]
    parents = [-1] * len(heap)
    heapq.heapify(heap)
    for arity in arities:
        node = len(parents)
        taken = [heapq.heappop(heap) for _ in range(arity)]
        for *_, child in taken:
            parents[child] = node
        parents.append(-1)
        clients.append(None)
        joined = (sum(t[0] for t in taken), sum(t[1] for t in taken), min(t[2] for t in taken), node)
        heapq.heappush(heap, joined)
    return plant(parents, clients)
