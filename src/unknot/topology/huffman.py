"""What Huffman's tree costs and how deep it is, without growing it."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping


def huffman_cost(bag: Mapping[int, int]) -> int:
    """Huffman's cost of items given as weight → how many; equal ones are joined at once."""
    left = dict(bag)
    total = 0
    if left.get(0, 0) > 1:
        left[0] = 1  # zeros join for nothing
    heap = list(left)
    heapq.heapify(heap)
    spare: int | None = None  # a single item that waits for the next lightest
    while heap:
        weight = heapq.heappop(heap)
        count = left.pop(weight)
        if spare is not None:
            joined = spare + weight
            total += joined
            count -= 1
            spare = None
            if joined in left:
                left[joined] += 1
            elif joined == weight:  # the spare weighed nothing
                count += 1
            else:
                left[joined] = 1
                heapq.heappush(heap, joined)
        pairs, odd = divmod(count, 2)
        if pairs:
            total += 2 * weight * pairs
            if 2 * weight not in left:
                heapq.heappush(heap, 2 * weight)
            left[2 * weight] = left.get(2 * weight, 0) + pairs
        if odd:
            spare = weight
    return total


def depths(weights: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Each client's depth in a Huffman tree, and by weight the least and greatest depth in any.

    However ties are broken, the weights that Huffman joins are the same, step by step. Backwards, any
    item of the joined weight may be the one that splits, so its depths' range goes to both halves.
    """
    heap = [(weight, 1, client, node) for node, (client, weight) in enumerate(sorted(weights.items()))]
    count = len(heap)
    ids = [client for _, _, client, _ in heap]
    heapq.heapify(heap)
    steps = []
    while len(heap) > 1:
        one, two = heapq.heappop(heap), heapq.heappop(heap)
        steps.append((one, two))
        node = count + len(steps) - 1
        heapq.heappush(heap, (one[0] + two[0], one[1] + two[1], min(one[2], two[2]), node))
    deep = [0] * (count + len(steps))
    total = sum(weights.values())
    low, high, many = {total: 0}, {total: 0}, Counter([total])
    for i in range(len(steps) - 1, -1, -1):
        one, two = steps[i]
        deep[one[3]] = deep[two[3]] = deep[count + i] + 1
        joined = one[0] + two[0]
        near, far = low[joined] + 1, high[joined] + 1
        many[joined] -= 1
        if not many[joined]:
            del low[joined], high[joined]
        for weight in (one[0], two[0]):
            many[weight] += 1
            low[weight] = min(low.get(weight, near), near)
            high[weight] = max(high.get(weight, far), far)
    return {c: deep[node] for node, c in enumerate(ids)}, low, high
