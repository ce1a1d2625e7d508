"""Neighbouring symbols that are merged, the best pair first: what byte-pair and scored pieces share."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Best = Callable[[int, int], tuple[float, int] | None]
"""Of two neighbours: how early they are merged (less is earlier), and into what; or nothing."""


def merged(symbols: list[int], best: Best) -> list[int]:
    """`symbols` after all merges; of equally good pairs the first is merged first.

    In time that grows as n log n: a text without spaces is one long word.
    """
    found, many = list(symbols), len(symbols)
    after, before = list(range(1, many + 1)), list(range(-1, many - 1))

    def candidate(place: int) -> tuple[float, int, int, int, int] | None:
        left, right = found[place], found[after[place]]
        pair = best(left, right)
        return None if pair is None else (pair[0], place, left, right, pair[1])

    heap = [one for place in range(many - 1) if (one := candidate(place)) is not None]
    heapify(heap)
    while heap:
        _, place, left, right, result = heappop(heap)
        gone = after[place]
        if gone >= many or found[place] != left or found[gone] != right:
            continue  # one of the two has been merged meanwhile
        found[place], found[gone] = result, -1
        after[place] = after[gone]
        if after[place] < many:
            before[after[place]] = place
            if (one := candidate(place)) is not None:
                heappush(heap, one)
        if before[place] >= 0 and (one := candidate(before[place])) is not None:
            heappush(heap, one)
    return [symbol for symbol in found if symbol >= 0]
