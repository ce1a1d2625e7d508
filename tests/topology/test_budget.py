"""The best tree within a budget, against all trees of up to seven clients."""

from fractions import Fraction

import alltrees
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.topology import best_within, build, score
from unknot.topology import budget as budgets
from unknot.topology.tree import cost

DRAWS = [
    [1, 1, 1, 1, 1, 1, 1],
    [5, 3, 2, 2, 1, 1, 1],
    [0, 0, 0, 1, 1, 2, 9],
    [64, 32, 16, 8, 4, 2, 1],
    [7, 7, 7, 1, 1, 1, 1],
    [13, 29, 8, 17, 40, 3, 22],
    [0, 0, 0, 0, 0, 0, 1],
]


@pytest.mark.parametrize("weights", DRAWS, ids=str)
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
def test_no_tree_with_so_few_sub_federations_is_better(weights, n):
    weights = weights[:n] if any(weights[:n]) else weights[-n:]
    every, inner = alltrees.costs(weights), alltrees.inner(n)
    shares = dict(enumerate(weights))
    for budget in range(n):
        tree, proven = best_within(range(n), budget, shares)
        assert proven
        assert tree.inner <= budget
        assert cost(tree, shares) == every[inner <= budget].min()
        assert build("budget", range(n), probabilities=shares, budget=budget) == tree


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=7).filter(any), st.integers(0, 5))
def test_drawn_weights(weights, budget):
    every, inner = alltrees.costs(weights), alltrees.inner(len(weights))
    tree, proven = best_within(range(len(weights)), budget, dict(enumerate(weights)))
    assert proven
    assert cost(tree, dict(enumerate(weights))) == every[inner <= budget].min()


def test_by_hand():
    """Nine equal clients, three sub-federations: three of three under the root, 2·9 + 3·(2·3) = 36."""
    tree, proven = best_within(range(9), 3)
    assert proven
    assert score(tree) == pytest.approx(36 / 9)
    assert sorted(map(len, tree.sets()))[-4:] == [3, 3, 3, 9]


def test_the_ends_are_the_star_and_huffman():
    shares = {c: 1 / (c + 1) for c in range(12)}
    assert best_within(range(12), 0, shares) == (build("star", range(12)), True)
    for budget in (10, 11, 500):
        assert best_within(range(12), budget, shares) == (
            build("huffman", range(12), probabilities=shares),
            True,
        )
    assert best_within([], 3) == (build("star", []), True)
    assert best_within([4], 3)[0].order == (4,)


def plain(items: list[int], left: int) -> int:
    """All sequences of merges, one after the other."""
    if left == 1:
        return (len(items) - 1) * sum(items)
    prices = []
    for k in range(2, len(items) - left + 2):
        joined = sum(items[:k])
        prices.append((k - 1) * joined + plain(sorted([*items[k:], joined]), left - 1))
    return min(prices)


@pytest.mark.parametrize("merges", [2, 4, 6, 8, 10])
def test_the_bounds_cut_nothing_off(merges):
    for seed in range(3):
        weights = sorted((seed * 7919 + i * i * 31 + i * 17) % (40 + 60 * seed) for i in range(13))
        found, proven = budgets.arities(weights, merges - 1)
        assert proven
        assert budgets.price(weights, found) == plain(weights, merges)


def test_a_bound_never_exceeds_the_price():
    for n in range(3, 12):
        items = [i * i % 11 for i in range(n)]
        items.sort()
        for left in range(1, n):
            assert budgets.at_least(items, left, 1 << 60) <= plain(items, left)


def test_equal_leaves_have_their_own_table():
    for n in range(2, 8):
        every, inner = alltrees.costs([1] * n), alltrees.inner(n)
        for merges in range(1, n):
            assert budgets._alike()[n][merges] == every[inner < merges].min()


def test_twenty_clients_are_proven():
    shares = {c: Fraction(1, c + 1) for c in range(20)}
    scores = []
    for budget in range(19):
        tree, proven = best_within(range(20), budget, shares)
        assert proven
        assert tree.inner == budget
        scores.append(score(tree, shares))
    assert scores == sorted(scores, reverse=True)


def test_beyond_the_limit_it_says_so_and_is_close(monkeypatch):
    weights = sorted((i * i * 37 + 11 * i) % 97 + 1 for i in range(22))
    for budget in (2, 5, 9, 13):
        best, proven = budgets.arities(weights, budget)
        assert proven
        monkeypatch.setattr(budgets, "EXACT", 10)
        found, proven = budgets.arities(weights, budget)
        monkeypatch.undo()
        assert not proven
        assert (
            budgets.price(weights, best)
            <= budgets.price(weights, found)
            <= 1.03 * budgets.price(weights, best)
        )
    assert not budgets.branch_and_bound(weights, 9, [2] * 8 + [14], 5)[1]


def test_ten_thousand_clients():
    shares = {c: 1 + (c * 7919) % 1000 for c in range(10_000)}
    best = score(build("huffman", shares, probabilities=shares), shares)
    last = score(build("star", shares), shares)
    for budget in (1, 100, 5000, 9990):
        tree, proven = best_within(shares, budget, shares)
        assert not proven
        assert tree.inner <= budget
        assert best <= score(tree, shares) < last
        last = score(tree, shares)


@pytest.mark.parametrize("budget", [-1, 1.5, True, "3"])
def test_a_budget_is_a_count(budget):
    with pytest.raises(ConfigError, match="number of sub-federations"):
        best_within(range(4), budget)


def test_a_budget_is_needed():
    with pytest.raises(ConfigError, match="needs a budget"):
        build("budget", range(4))


@pytest.mark.parametrize("n", [17, 30])
def test_the_merges_find_what_the_table_of_equal_leaves_knows(n):
    """Two ways that share nothing: forests under a root, and merges of the lightest."""
    for budget in range(n - 1):
        found, proven = budgets.arities([1] * n, budget)
        assert proven
        assert budgets.price([1] * n, found) == budgets._alike()[n][budget + 1]
