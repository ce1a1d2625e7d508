"""The tree itself: its sets, its scores, what is refused."""

from fractions import Fraction
from itertools import combinations

import alltrees
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.topology import KINDS, Tree, aggregated, build, parts, score

NESTED = [{0, 1, 2, 3, 4}, {0, 1, 2}, {0, 1}]


def faults(sets, clients):
    """What is wrong with a list of nodes, root first: nothing, for a tree."""
    clients = frozenset(clients)
    found = []
    if not sets or sets[0] != clients:
        found.append("root")
    if not all(frozenset({c}) in sets for c in clients):
        found.append("leaf")
    if len(set(sets)) != len(sets):
        found.append("twice")
    if any(a & b and not (a <= b or b <= a) for a, b in combinations(sets, 2)):
        found.append("crossing")
    if any(a < b for a, b in combinations(sets, 2)):
        found.append("child before parent")
    return found


def siblings(sets, c):
    """Plainly: go down from the root to the client and count whom one passes."""
    passed, here = 0, max(sets, key=len)
    while len(here) > 1:
        below = [s for s in sets if s < here and not any(s < t < here for t in sets)]
        passed += len(below) - 1
        here = next(s for s in below if c in s)
    return passed


@st.composite
def trees(draw):
    n = draw(st.integers(1, 24))
    clients = draw(st.lists(st.integers(0, 99), min_size=n, max_size=n, unique=True))
    probabilities = {c: draw(st.sampled_from([0, 1, 1, 2, 3, 0.5, 0.1])) for c in clients}
    probabilities[clients[0]] = 1
    kind = draw(st.sampled_from(sorted(KINDS)))
    expires = {c: draw(st.integers(0, 5)) for c in clients}
    options = {"probabilities": probabilities, "expires": expires}
    return kind, clients, options | {"branching": draw(st.integers(2, 6)), "budget": draw(st.integers(0, 8))}


@settings(deadline=None, derandomize=True, max_examples=200)
@given(trees())
def test_every_tree_is_a_tree(drawn):
    kind, clients, options = drawn
    tree = build(kind, clients, **options)
    sets = tree.sets()
    assert faults(sets, clients) == []
    assert Tree.of(sets) == tree
    assert hash(Tree.of(reversed(sets))) == hash(tree)
    assert tree.inner == sum(1 < len(s) < len(clients) for s in sets)
    assert tree.depth == max(sum(c in s for s in sets) for c in clients) - 1
    assert tree.clients == frozenset(clients)
    assert build(kind, clients[::-1], **options) == tree


@settings(deadline=None, derandomize=True, max_examples=100)
@given(trees())
def test_both_formulas_and_the_plain_walk_agree(drawn):
    """Σ p_c f(c), as the paper defines it, and Σ over nodes d of q_d × siblings of d."""
    kind, clients, options = drawn
    tree = build(kind, clients, **options)
    sets = tree.sets()
    p = {c: Fraction(repr(v)) for c, v in options["probabilities"].items()}
    total = sum(p.values())
    assert all(aggregated(tree, c) == siblings(sets, c) for c in clients)
    by_client = sum(p[c] * aggregated(tree, c) for c in clients) / total
    below = tree.children()
    by_node = sum(
        sum(p[c] for c in tree.members(d)) * (len(below[tree.parents[d]]) - 1) for d in range(1, len(tree))
    )
    assert score(tree, options["probabilities"]) == pytest.approx(float(by_client), abs=1e-12)
    assert by_client == by_node / total


def test_a_tampered_tree_is_found_out():
    sets = build("huffman", range(6)).sets()
    assert faults(sets, range(6)) == []
    assert faults(sets[1:], range(6)) == ["root"]
    assert faults(sets[:-1], range(6)) == ["leaf"]
    crossing = [*sets[:5], frozenset({0, 5}), *sets[5:]]
    assert "crossing" in faults(crossing, range(6))
    assert faults(sets[::-1], range(6)) == ["root", "child before parent"]
    assert faults([*sets, sets[-1]], range(6)) == ["twice"]


def test_scores_by_hand():
    """Star of 5: each leaver leaves 4 models. Nested {{{0,1},2},3,4}: root has 3 children.

    f(3) = f(4) = 2; f(2) = 2 + 1; f(0) = f(1) = 2 + 1 + 1. Alike: (2 + 2 + 3 + 4 + 4) / 5 = 3.
    With p = .5 for client 3 and .125 for the others: .5·2 + .125·(2 + 3 + 4 + 4) = 2.625.
    """
    assert score(build("star", range(5))) == 4
    tree = Tree.of(NESTED)
    assert [aggregated(tree, c) for c in range(5)] == [4, 4, 3, 2, 2]
    assert score(tree) == 3
    assert score(tree, {0: 0.125, 1: 0.125, 2: 0.125, 3: 0.5, 4: 0.125}) == 2.625
    assert score(tree, {0: 1, 1: 1, 2: 1, 3: 4, 4: 1}) == 2.625


def test_the_order_of_sets():
    tree = Tree.of(NESTED[::-1])
    assert tree.order == (0, 1, 2, 3, 4)
    assert tree.sets() == [*map(frozenset, NESTED), {0}, {1}, {2}, {3}, {4}]
    assert tree == Tree.of([*NESTED, {3}])
    assert tree != Tree.of(NESTED[:2])
    assert (tree.inner, tree.depth, len(tree)) == (2, 3, 8)


def test_none_and_one_and_two():
    for kind in KINDS:
        options = {"expires": {}, "budget": 2}
        assert not build(kind, [], **options)
        one = build(kind, [7], **options | {"expires": {7: 1}})
        assert one.sets() == [{7}]
        assert (one.depth, one.inner, score(one), aggregated(one, 7)) == (0, 0, 0, 0)
        two = build(kind, [9, 7], **options | {"expires": {7: 1, 9: 0}})
        assert two.sets() == [{7, 9}, {7}, {9}]
        assert (two.depth, two.inner, score(two)) == (1, 0, 1)
    assert Tree.of([]) == Tree() == build("star", [])
    assert (Tree().sets(), Tree().depth, Tree().inner, score(Tree())) == ([], 0, 0, 0)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([{0, 1, 2}, {0, 1}, {1, 2}], r"\{1, 2\} and \{0, 1\} share clients.*double influence"),
        ([{0, 1}, {2, 3}], "no root"),
        ([{0, 1}, {2}], "no root.*without client 2"),
        ([{0, 1}, set()], "empty node"),
        ([{0, 1, 2, 3, 4}, {0, 1, 2}, {2, 3, 4}], "double influence"),
    ],
)
def test_what_is_no_tree(sets, words):
    with pytest.raises(ConfigError, match=words):
        Tree.of(sets)


def test_all_trees_of_six_are_distinct_trees():
    rows = alltrees.trees(0b111111)
    made = {Tree.of([[c for c in range(6) if mask >> c & 1] for mask, _ in row]) for row in rows}
    assert len(made) == len(rows) == 2752


@pytest.mark.parametrize(
    ("probabilities", "words"),
    [
        ({0: 0.5, 1: -0.1, 2: 0.6}, "client 1 is -0.1"),
        ({0: 0.5, 1: float("nan"), 2: 0.6}, "client 1 is nan"),
        ({0: 0.5, 1: 0.6, 2: float("inf")}, "client 2 is inf"),
        ({0: 0.5, 1: 0.6, 2: "x"}, "client 2 is 'x'"),
        ({0: 0.5, 1: 0.6}, "client 2 has no probability"),
        ({0: 0.5, 1: 0.6, 2: 0.1, 7: 0.1}, "client 7, which is not among"),
        ({0: 0, 1: 0.0, 2: 0}, "all probabilities are zero"),
    ],
)
def test_probabilities_that_are_none(probabilities, words):
    for ask in (
        lambda: build("huffman", range(3), probabilities=probabilities),
        lambda: score(build("star", range(3)), probabilities),
    ):
        with pytest.raises(ConfigError, match=words):
            ask()


def test_probabilities_are_scaled():
    p = {0: 0.2, 1: 0.3, 2: 0.4}
    tree = build("huffman", p, probabilities=p)
    assert tree == build("huffman", p, probabilities={c: 7 * v for c, v in p.items()})
    assert score(tree, p) == pytest.approx((0.5 + 0.9) / 0.9)


def test_an_unknown_client():
    with pytest.raises(ConfigError, match="client 9 is not in the tree"):
        aggregated(Tree.of(NESTED), 9)


def test_parts():
    trained = [{0, 1, 2, 3}, {0, 1}, {0}, {1}, {2}, {3}, {5, 6}, {5}, {6}, {4}]
    assert parts({0, 1, 3, 4, 5}, trained) == [{0, 1}, {3}, {4}, {5}]
    assert parts({0, 1, 2, 3}, trained) == [{0, 1, 2, 3}]
    assert parts({8}, trained) == []
    assert parts({0, 1, 2}, [{0, 1}, {1, 2}, {1}]) == [{0, 1}, {1, 2}]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(trees(), st.data())
def test_parts_are_disjoint_and_cover(drawn, data):
    kind, clients, options = drawn
    tree = build(kind, clients, **options)
    gone = data.draw(st.sampled_from(clients))
    rest = tree.clients - {gone}
    found = parts(rest, [s for s in tree.sets() if gone not in s])
    assert sum(map(len, found)) == len(rest)
    assert frozenset().union(*found) == rest
    assert len(found) == aggregated(tree, gone)  # the score counts what is really aggregated
    assert [min(s) for s in found] == sorted(min(s) for s in found)
