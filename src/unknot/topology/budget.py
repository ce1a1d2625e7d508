"""The best tree with at most m sub-federations: how many items to join, merge after merge.

Let the *length* of a leaf be the sum of (children - 1) along its path: the score is Σ p × length. Take a
leaf of the greatest length. Its siblings are leaves too (below an inner sibling lengths would be
greater), all k of the same length, so exchanging them with the k lightest leaves costs nothing. Join
them into one leaf, and the same holds for the rest. So some best tree is a sequence of M = m + 1
merges, each joining the k lightest items at the price (k - 1) × their sum, and only the arities are
left to choose: Σ (k - 1) = n - 1. Merges left unused never help, since splitting a node of three or
more children costs nothing. Branch and bound finds the best sequence; beyond its limits a local search
over falling arities does.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from operator import mul

import numpy as np

EXACT = 64  # clients up to which the best tree is searched for exactly
WORK = 300_000  # states looked at before the exact search gives up
STEPS = 1_200_000  # work of the local search: under a second for 10,000 clients
STARTS = 3  # of its last step


def arities(weights: Sequence[int], budget: int) -> tuple[list[int], bool]:
    """The arities of the best merges of these rising weights, and whether they are proven best."""
    count = len(weights)
    merges = min(budget + 1, count - 1)
    if merges <= 1 or merges == count - 1:
        return [count] * merges if merges <= 1 else [2] * merges, True
    found = local_search(weights, merges)
    if count > EXACT:
        return found, False
    return branch_and_bound(weights, merges, found, WORK)


def price(weights: Sequence[int], sequence: Sequence[int]) -> int:
    """What these merges cost, exactly."""
    items, total = list(weights), 0
    for arity in sequence:
        joined = sum(items[:arity])
        total += (arity - 1) * joined
        del items[:arity]
        insort(items, joined)
    return total


# The exact search.


class _Enough(Exception):
    """The work limit is reached."""


def branch_and_bound(
    weights: Sequence[int], merges: int, found: Sequence[int], work: int
) -> tuple[list[int], bool]:
    """The best sequence, better than `found` or `found` itself; not proven if the work ran out."""
    best, best_price = list(found), price(weights, found)
    seen: dict[tuple[int, ...], int] = {}
    path: list[int] = []
    looked = 0

    def visit(items: list[int], left: int, spent: int) -> None:  # as deep as there are merges, 63 at most
        nonlocal best, best_price, looked
        if left == 1:
            total = spent + (len(items) - 1) * sum(items)
            if total < best_price:
                best, best_price = [*path, len(items)], total
            return
        options = []
        joined = items[0]
        for arity in range(2, len(items) - left + 2):
            joined += items[arity - 1]
            cost = spent + (arity - 1) * joined
            if cost + joined >= best_price:  # the joined item is merged at least once more
                break
            rest = items[arity:]
            insort(rest, joined)
            looked += 1
            bound = cost + at_least(rest, left - 1, best_price - cost)
            if bound < best_price:
                options.append((bound, arity, cost, rest))
        options.sort()
        for bound, arity, cost, rest in options:
            if bound >= best_price:
                return
            state = (left, *rest)
            if seen.get(state, cost + 1) <= cost:
                continue
            seen[state] = cost
            if looked > work:
                raise _Enough
            path.append(arity)
            visit(rest, left - 1, cost)
            path.pop()

    try:
        visit(sorted(weights), merges, 0)
    except _Enough:
        return best, False
    return best, True


def at_least(items: list[int], left: int, enough: int) -> int:
    """No sequence of so many merges of these rising items costs less. Stops trying above `enough`."""
    bound: int = sum(map(mul, reversed(items), _steps(len(items), left)))
    return bound if bound >= enough else max(bound, _huffman(items))


def _huffman(items: list[int]) -> int:
    """The price without a budget."""
    queue: list[int] = []
    i = j = total = 0
    count = len(items)
    for _ in range(count - 1):
        joined = 0
        for _ in (1, 2):
            if i < count and (j >= len(queue) or items[i] <= queue[j]):
                joined += items[i]
                i += 1
            else:
                joined += queue[j]
                j += 1
        queue.append(joined)
        total += joined
    return total


@cache
def _steps(count: int, merges: int) -> list[int]:
    """How much the least sum of the i smallest lengths grows with i, in trees of `count` leaves.

    With weights w_1 ≥ w_2 ≥ … a tree costs Σ w_i × length_i = Σ (w_i - w_{i+1}) × (the first i lengths'
    sum), so a bound on those sums bounds the price. To find it, give i leaves the weight 1 and the
    others 0: the first merge takes all the zeros and j of the ones.
    """
    alike = _alike()
    sums = [0]
    for i in range(1, count + 1):
        zeros = count - i
        if merges == 1:
            sums.append(i * (count - 1))
        elif zeros == 0:
            sums.append(int(alike[i][merges]))
        else:
            least = int(alike[i][merges - 1])
            for j in range(1, i + 1):
                first = (zeros + j - 1) * j
                if first >= least:
                    break
                least = min(least, first + int(alike[i - j + 1][merges - 1]) + (j - 1 if j < i else 0))
            sums.append(least)
    return [b - a for a, b in pairwise(sums)]


@lru_cache(maxsize=1)
def _alike() -> list[list[int]]:
    """The least price [leaves][merges] of trees whose leaves all weigh 1: a tree is a forest under a root."""
    none = 1 << 40
    size = EXACT + 1
    tree = np.full((size, size), none, dtype=np.int64)  # [leaves][at most so many merges]
    forest = np.full((size, size, size), none, dtype=np.int64)  # [trees][leaves][merges]
    tree[1] = 0
    forest[1, 1] = 0
    for s in range(2, size):
        for k in range(2, s + 1):
            row = forest[k, s]
            for small in range(1, s // k + 1):  # the smallest tree of the forest
                rest = forest[k - 1, s - small]
                for r in range(min(small, size)):
                    if tree[small, r] < none:
                        np.minimum(row[r:], tree[small, r] + rest[: size - r], out=row[r:])
            np.minimum(tree[s, 1:], (k - 1) * s + row[:-1], out=tree[s, 1:])
        forest[1, s] = tree[s]
    return [[int(x) for x in row] for row in tree]


# The local search.


def local_search(weights: Sequence[int], merges: int) -> list[int]:
    """A good sequence of arities, found with the same work on every machine.

    The arities come in runs of almost equal ones, the larger first; a run is (merges, Σ (arity - 1)), and
    the last takes what is left. Two runs from a grid, then three, each changed as long as it helps.
    """
    count = len(weights)
    top = max(weights[-1], 1)
    values = [w / top for w in weights]  # floats will do here: the price is taken exactly in the end
    sums = [0.0, *accumulate(values)]
    left = STEPS
    price_of_trying = 10 + merges * merges.bit_length() // 4
    tried: dict[tuple[int, ...], float] = {}

    def try_out(sequence: Sequence[int]) -> float:
        return _quick(values, sums, sequence)

    def judge(runs: tuple[int, ...]) -> float:
        nonlocal left
        if runs not in tried:
            sequence = _spread(runs, count, merges)
            tried[runs] = try_out(sequence) if sequence else math.inf
            left -= price_of_trying if sequence else 10
        return tried[runs]

    counts = {max(1, min(merges - 1, merges * i // 12)) for i in (0, 1, 2, 3, 4, 6, 8, 9, 11, 12)}
    judge((0, 0))
    for arity in (2, 3, 4, 6, 10, 20, 50):  # of the later merges
        for c in sorted(counts):
            if left > 3 * STEPS // 4:
                judge((c, count - 1 - (arity - 1) * (merges - c)))
    best = min(tried, key=lambda runs: (tried[runs], runs))
    best = _descend(best, judge, lambda: left > 2 * STEPS // 3)
    best = min(best, _descend((*best, 0, 0), judge, lambda: left > 7 * STEPS // 12), key=judge)
    first = (best[0] // 4, best[1] // 2)
    best = min(best, _descend((*first, *best), judge, lambda: left > STEPS // 2), key=judge)
    possible = sorted((value, runs) for runs, value in tried.items() if value < math.inf)
    starts = [_spread(runs, count, merges) for runs in [best, *(runs for _, runs in possible[:STARTS])]]
    bends = (1.0, 0.5, 2.0) if 30 * price_of_trying < left // 2 else (1.0,)
    slopes = [_slope(s, bend, count, merges) for bend in bends for s in (1, 2, 3, 4, 5, 6, 8, 10, 14)]
    starts += sorted(slopes, key=try_out)[:2]
    left -= price_of_trying * len(slopes)
    tries = left // price_of_trying // len(starts)
    return min((_polish(start, try_out, tries) for start in starts), key=lambda end: end[0])[1]


def _slope(steepness: int, bend: float, count: int, merges: int) -> list[int]:
    """Arities that fall like an exponential, at first steeper (bend below 1) or flatter (above)."""
    heights = list(accumulate(math.exp(-steepness * (i / merges) ** bend) for i in range(merges)))
    marks = [0, *(round((count - 1 - merges) * height / heights[-1]) for height in heights)]
    return sorted((2 + b - a for a, b in pairwise(marks)), reverse=True)


def _spread(runs: tuple[int, ...], count: int, merges: int) -> list[int]:
    """The arities of these runs; none if they do not fit."""
    pairs = list(zip(runs[::2], runs[1::2], strict=True))
    pairs.append((merges - sum(c for c, _ in pairs), count - 1 - sum(x for _, x in pairs)))
    sequence: list[int] = []
    for c, x in pairs:
        if c < 0 or x < c or (c == 0 and x):
            return []
        if c:
            share, more = divmod(x, c)
            sequence += [share + 2] * more + [share + 1] * (c - more)
    return sequence


def _quick(values: list[float], sums: list[float], sequence: Sequence[int]) -> float:
    """The price of a sequence in about as many steps as it has merges, not as there are clients."""
    queue: list[float] = []  # joined items, rising, those before j used up
    i = j = 0
    total = 0.0
    for arity in sequence:
        joined, need = 0.0, arity
        while need:
            if j < len(queue) and (i == len(values) or queue[j] < values[i]):
                joined += queue[j]
                j += 1
                need -= 1
                continue
            end = min(i + need, len(values))
            if j < len(queue) and values[end - 1] > queue[j]:
                end = bisect_right(values, queue[j], i, end)
            joined += sums[end] - sums[i]
            need -= end - i
            i = end
        insort(queue, joined, lo=j)
        total += (arity - 1) * joined
    return total


def _descend(
    runs: tuple[int, ...], judge: Callable[[tuple[int, ...]], float], more: Callable[[], bool]
) -> tuple[int, ...]:
    """Change one number at a time, by less and less, while it helps."""
    step = max(max(runs) // 4, 1)
    while step and more():
        better = runs
        for place in range(len(runs)):
            for change in (step, -step):
                other = (*runs[:place], runs[place] + change, *runs[place + 1 :])
                if more() and judge(other) < judge(better):
                    better = other
        if better == runs:
            step //= 2
        runs = better
    return runs


def _polish(
    sequence: list[int], judge: Callable[[Sequence[int]], float], tries: int
) -> tuple[float, list[int]]:
    """Move children from one merge to another, fewer and fewer, or swap two merges, while it helps."""
    best, value = sequence, judge(sequence)
    gaps = [gap for gap in (1, 2, 3, 5, 8, 13, 21, 34) if gap < len(sequence)]
    step = max(sequence) // 4 + 1
    while step and tries > 0:
        improved = False
        for gap in gaps:
            for place in range(len(sequence) - gap):
                one, two = best[place], best[place + gap]
                for pair in ((one - step, two + step), (one + step, two - step), (two, one)):
                    if min(pair) < 2 or pair[0] == one or tries <= 0:
                        continue
                    other = list(best)
                    other[place], other[place + gap] = pair
                    tries -= 1
                    if (found := judge(other)) < value * (1 - 1e-12):
                        best, value, improved = other, found, True
                        break
        if not improved:
            step //= 2
    return value, best
