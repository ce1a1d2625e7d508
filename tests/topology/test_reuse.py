"""Rebuilding around trained sets, against all trees of up to seven clients."""

import math
from fractions import Fraction

import alltrees
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import grid
from unknot.core.errors import ConfigError
from unknot.topology import Tree, build, keep, rebuild, rebuild_proven, score
from unknot.topology import reuse as reusing
from unknot.topology.tree import cost


def count(tree, trained):
    nodes = set(tree.sets())
    return sum(s in nodes for s in {frozenset(s) for s in trained} if 1 < len(s) < len(tree.order))


@st.composite
def worlds(draw):
    """Weights with ties and zeros, and trained sets: some inner nodes of a tree drawn from all."""
    n = draw(st.integers(3, 7))
    kind = draw(
        st.sampled_from([st.just(1), st.integers(0, 3), st.integers(1, 30), st.sampled_from([1, 2, 4])])
    )
    weights = draw(st.lists(kind, min_size=n, max_size=n).filter(any))
    rows = alltrees.trees((1 << n) - 1)
    row = rows[draw(st.integers(0, len(rows) - 1))]
    sets = [frozenset(c for c in range(n) if mask >> c & 1) for mask, _ in row]
    return weights, [s for s in sets if draw(st.integers(0, 4))]


@settings(deadline=None, derandomize=True, max_examples=120)
@given(worlds())
def test_least_score_then_most_reuse(world):
    weights, trained = world
    shares = dict(enumerate(weights))
    every, fits = alltrees.costs(weights), alltrees.reused(len(weights), set(trained))
    tree, proven = rebuild_proven(range(len(weights)), trained, shares)
    assert proven
    assert cost(tree, shares) == every.min()
    assert count(tree, trained) == fits[every == every.min()].max()


@settings(deadline=None, derandomize=True, max_examples=80)
@given(worlds(), st.sampled_from([0.01, 0.1, 0.125, 0.25, 0.4, 1.0, 3.0, math.inf]))
def test_reuse_has_its_worth(world, worth):
    weights, trained = world
    shares = dict(enumerate(weights))
    every, fits = alltrees.costs(weights), alltrees.reused(len(weights), set(trained))
    tree, proven = rebuild_proven(range(len(weights)), trained, shares, worth)
    assert proven
    if math.isinf(worth):
        assert count(tree, trained) == fits.max() == count(Tree.of([range(len(weights)), *trained]), trained)
        assert cost(tree, shares) == every[fits == fits.max()].min()
        return
    exact = Fraction(repr(worth)) * sum(weights)
    goal = min(Fraction(int(c)) - exact * int(r) for c, r in set(zip(every, fits, strict=True)))
    assert cost(tree, shares) - exact * count(tree, trained) == goal


@settings(deadline=None, derandomize=True, max_examples=80)
@given(worlds(), st.booleans())
def test_beyond_the_limits_nothing_free_is_thrown_away(world, start_from_nothing):
    """The greedy choice, which small families never see, cannot be improved by one more set."""
    weights, trained = world
    n = len(weights)
    shares = dict(enumerate(weights))
    every = alltrees.costs(weights)
    sets = {s for s in trained if 1 < len(s) < n}
    search = reusing._Search(Tree.of([range(n), *sets]), shares, 0.0)
    free, _ = search.free()
    tree = search.grow(search.greedy(set() if start_from_nothing else free))
    assert cost(tree, shares) == every.min()
    used = sets.intersection(tree.sets())
    for other in sets - used:
        fits = alltrees.reused(n, used | {other})
        assert every[fits == len(used) + 1].min() > every.min()


@settings(deadline=None, derandomize=True, max_examples=80)
@given(worlds())
def test_what_is_called_hopeless_is(world):
    weights, trained = world
    n = len(weights)
    every = alltrees.costs(weights)
    search = reusing._Search(Tree.of([range(n), *trained]), dict(enumerate(weights)), 0.0)
    free, _ = search.free()
    together = {frozenset(search.tree.members(v)) for v in free}
    assert (alltrees.reused(n, together)[every == every.min()] == len(together)).any()
    for v in search.hopeless:
        fits = alltrees.reused(n, {frozenset(search.tree.members(v))})
        assert not fits[every == every.min()].any()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=7).filter(any))
def test_huffman_in_bulk(weights):
    bag = {w: weights.count(w) for w in weights}
    assert reusing.huffman_cost(bag) == alltrees.costs(weights).min()


def test_seven_equal_clients():
    """Each set alone costs nothing (20/7: six leaves at 3, one at 2), both together 21/7."""
    trained = [{1, 2, 3}, {4, 5, 6}]
    tree = rebuild(range(1, 8), trained)
    assert score(tree) == pytest.approx(20 / 7)
    assert count(tree, trained) == 1
    both = rebuild(range(1, 8), trained, reuse=math.inf)
    assert score(both) == pytest.approx(21 / 7)
    assert count(both, trained) == 2
    assert count(rebuild(range(1, 8), trained, reuse=1 / 7 + 0.001), trained) == 2
    assert count(rebuild(range(1, 8), trained, reuse=1 / 7 - 0.001), trained) == 1


def test_singles_the_whole_and_the_gone_do_not_count():
    assert rebuild(range(4), [{0}, {0, 1, 2, 3}, {1, 9}]) == build("huffman", range(4))


def test_small_federations():
    assert not rebuild([], [])
    assert rebuild([3], [{3}]).sets() == [frozenset({3})]
    assert rebuild([3, 5], [{3}]).sets() == [{3, 5}, {3}, {5}]


def test_crossing_sets_and_bad_worth_are_refused():
    with pytest.raises(ConfigError, match="double influence"):
        rebuild(range(4), [{0, 1}, {1, 2}])
    for worth in (-1, math.nan):
        with pytest.raises(ConfigError, match="0 or more"):
            rebuild(range(4), [], reuse=worth)


@pytest.mark.parametrize(("kind", "alike"), grid(["huffman", "greedy"], [True, False]))
def test_ten_thousand_clients(alike, kind):
    n = 2000 if kind == "greedy" else 10_000  # a caterpillar's sets have n² / 2 members in all
    shares = {c: 1.0 if alike else 1 + math.sin(c) ** 2 for c in range(n)}
    tree = build(kind, range(n), probabilities=shares, expires={c: c for c in range(n)})
    gone = frozenset({17})
    trained = [s for s in tree.sets() if not s & gone]
    del shares[17]
    new = rebuild(shares, trained, shares)
    assert score(new, shares) == score(build("huffman", shares, probabilities=shares), shares)
    if kind == "huffman":
        assert count(new, trained) > 0.7 * sum(len(s) > 1 for s in trained)
    assert score(keep(tree, leave=gone), shares) >= score(new, shares)
