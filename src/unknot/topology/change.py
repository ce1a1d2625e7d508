"""A tree after leaves and joins: kept as it is, as far as it goes, or built anew around what is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real

from unknot.core.errors import ConfigError
from unknot.topology.kinds import build
from unknot.topology.probabilities import listed
from unknot.topology.reuse import rebuild_proven
from unknot.topology.tree import Tree, client_ids, plant


def keep(tree: Tree, leave: Iterable[int] = (), join: Iterable[int] = ()) -> Tree:
    """The same tree without those who leave, beside those who join.

    A leaver's leaf goes; a node left with one child becomes that child. Newcomers form a tree of their
    own, which with the old one makes the new root. When the last client has left, the tree is empty,
    and false.
    """
    going, coming = frozenset(leave), client_ids(join)
    strangers = sorted(going - tree.clients)
    if strangers:
        there = listed(sorted(tree.order)) if tree else "no clients"
        raise ConfigError(f"client {strangers[0]} cannot leave: the tree has {there}")
    rest = _without(tree, going) if going else tree
    twice = sorted(rest.clients.intersection(coming))
    if twice:
        raise ConfigError(f"client {twice[0]} cannot join: it is in the tree already")
    if not coming:
        return rest
    new = build("huffman", coming)
    return _side_by_side(rest, new) if rest else new


def rebuild(
    clients: Iterable[int],
    trained: Iterable[Iterable[int]],
    probabilities: Mapping[int, Real | float] | None = None,
    reuse: float = 0.0,
) -> Tree:
    """A new tree that uses trained sub-federations: least score - `reuse` × how many of them it uses.

    With 0 the score is Huffman's, and among all trees of that score as many trained sets as can be are
    nodes of this one; with infinity all of them are. Sets of one client, of all clients, or with
    clients that are gone do not count. `rebuild_proven` also says whether the choice is proven best.
    """
    return rebuild_proven(clients, trained, probabilities, reuse)[0]


def _without(tree: Tree, going: frozenset[int]) -> Tree:
    """A node stays if it has clients left, and fewer than the nearest node above that stays."""
    left = [0]
    for c in tree.order:
        left.append(left[-1] + (c not in going))
    place: list[int] = []  # where the nearest node that stays, from this one upwards, stands in the new tree
    parents: list[int] = []
    sizes: list[int] = []
    clients: list[int | None] = []
    for start, stop, parent in zip(tree.starts, tree.stops, tree.parents, strict=True):
        size = left[stop] - left[start]
        above = place[parent] if parent >= 0 else -1
        if size == 0 or (above >= 0 and sizes[above] == size):
            place.append(above)
            continue
        place.append(len(parents))
        parents.append(above)
        sizes.append(size)
        only = next(c for c in tree.order[start:stop] if c not in going) if size == 1 else None
        clients.append(only)
    return plant(parents, clients)


def _side_by_side(one: Tree, other: Tree) -> Tree:
    parents: list[int] = [-1]
    clients: list[int | None] = [None]
    for tree in (one, other):
        shift = len(parents)
        for node, parent in enumerate(tree.parents):
            parents.append(parent + shift if parent >= 0 else 0)
            start, stop = tree.starts[node], tree.stops[node]
            clients.append(tree.order[start] if stop - start == 1 else None)
    return plant(parents, clients)
