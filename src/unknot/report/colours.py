"""Colours and dashes of lines: a method has the same ones on every page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Okabe and Ito: told apart with any kind of colour vision. Each line also has a dash of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 2, 2, 2)))
# Names that never meet in a figure may share a place.
PLACES = {
    "rfs": 0,
    "bmt": 1,
    "mmt": 2,
    "exact-fun": 3,
    "fedcio": 4,
    "fats": 5,
    "standalone": 6,
    "sisa": 7,
    "b2": 1,
    "b3": 2,
    "b5": 4,
    "b10": 5,
    "huffman": 1,
    "shannon-fano": 2,
    "sisa-mean": 4,
    "fedbuff": 0,
    "random": 1,
    "knot": 2,
    "federaser": 3,
    "rapid": 4,
    "rapid-slow": 5,
    "fedavg": 6,
    "random-back": 7,
    "knot-rapid": 3,
    "knot-rapid-slow": 7,
    "random-2": 3,
    "random-3": 4,
    "random-8": 5,
    "random-10": 7,
    "evolutionary": 0,
    "round_robin": 2,
    "greedy": 3,
    "highest_offer": 4,
    "uniform": 0,
    "k-center": 1,
    "dqn": 2,
    "balanced": 3,
    "everybody": 6,
}


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """How each line looks; names without a place, or whose place is taken, have what the others leave."""
    names = list(dict.fromkeys(names))
    places: dict[str, int] = {}
    for name in names:
        if name in PLACES and PLACES[name] not in places.values():
            places[name] = PLACES[name]
    free = [place for place in range(len(COLOURS)) if place not in places.values()]
    others = [name for name in names if name not in places]
    for i, name in enumerate(others):
        places[name] = free[i] if i < len(free) else i % len(COLOURS)
    return {name: {"color": COLOURS[places[name]], "linestyle": DASHES[places[name]]} for name in names}
