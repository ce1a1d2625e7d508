"""The plain twin: every tree of up to seven clients, written out.

A tree is a row: for each set of clients, as a bit mask, its children minus one where it is a node, else 0.
A cost is then a product with the weights of all sets.
"""

from functools import cache
from itertools import product

import numpy as np

COUNTS = {2: 1, 3: 4, 4: 26, 5: 236, 6: 2752, 7: 39208}  # Schröder's fourth problem, OEIS A000311


@cache
def trees(mask: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All trees over the clients of a mask: (node, children - 1) of each node that is not a leaf."""
    if mask.bit_count() == 1:
        return ((),)
    return tuple(((mask, blocks - 1), *nodes) for blocks, nodes in forests(mask) if blocks > 1)


@cache
def forests(mask: int) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """All ways to cut the clients into trees: how many, and their nodes; the whole as one tree left out."""
    if not mask:
        return ((0, ()),)
    low = mask & -mask
    rest = mask ^ low
    found = []
    part = rest
    while True:
        block = low | part
        if block != mask or mask.bit_count() == 1:
            others = forests(mask ^ block)
            if mask ^ block:
                others = (*others, *((1, t) for t in trees(mask ^ block) if (mask ^ block).bit_count() > 1))
            found += [(1 + n, a + b) for a, (n, b) in product(trees(block), others)]
        if not part:
            return tuple(found)
        part = (part - 1) & rest


@cache
def table(n: int) -> np.ndarray:
    """One row a tree, one column a set."""
    rows = trees((1 << n) - 1)
    assert len(set(rows)) == len(rows) == COUNTS[n]
    out = np.zeros((len(rows), 1 << n), dtype=np.int64)
    for i, row in enumerate(rows):
        for mask, degree in row:
            out[i, mask] = degree
    return out


def masses(weights: list[int]) -> np.ndarray:
    """The weight of every set."""
    n = len(weights)
    return np.array([sum(w for i, w in enumerate(weights) if mask >> i & 1) for mask in range(1 << n)])


def costs(weights: list[int]) -> np.ndarray:
    """The cost of every tree, Σ (children - 1) × weight."""
    return table(len(weights)) @ masses(weights)


def inner(n: int) -> np.ndarray:
    """How many sub-federations every tree has."""
    return (table(n) > 0).sum(1) - 1


def reused(n: int, sets: set[frozenset[int]]) -> np.ndarray:
    """How many of these sets every tree has as nodes."""
    columns = [sum(1 << c for c in s) for s in sets if 1 < len(s) < n]
    return (table(n)[:, columns] > 0).sum(1)
