"""Each kind of tree, by hand and against all trees."""

from fractions import Fraction

import alltrees
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.topology import Tree, build, score
from unknot.topology.tree import cost


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=7).filter(any))
def test_no_tree_beats_huffman(weights):
    tree = build("huffman", range(len(weights)), probabilities=dict(enumerate(weights)))
    assert cost(tree, dict(enumerate(weights))) == alltrees.costs(weights).min()


@pytest.mark.parametrize("kind", ["shannon-fano", "balanced", "star"])
def test_the_others_are_trees_that_huffman_beats_or_equals(kind):
    for weights in ([1] * 7, [1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 5, 5, 1, 1], [50, 20, 10, 9, 5, 4, 2]):
        shares = dict(enumerate(weights))
        every = alltrees.costs(weights)
        assert every.min() <= cost(build(kind, range(7), probabilities=shares), shares) <= every.max()


def test_equal_clients_pair_up_from_the_least():
    """Ten alike: five pairs, two fours, and (8, 9) joins the first four. 4 at depth 4, 6 at 3: 34 / 10."""
    tree = build("huffman", [9, 3, 1, 0, 2, 5, 4, 8, 7, 6])
    pairs = [s for s in tree.sets() if len(s) == 2]
    assert sorted(map(sorted, pairs)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert score(tree) == 3.4


def test_a_tie_is_a_tie_as_a_person_sees_it():
    """0.1 + 0.2 is 0.3: in floats it is a little more, and the joined pair would come after client 2."""
    p = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.3}
    whole = {0: 1, 1: 2, 2: 3, 3: 3}
    assert build("huffman", p, probabilities=p) == build("huffman", p, probabilities=whole)
    assert build("huffman", p, probabilities={c: Fraction(v, 9) for c, v in whole.items()}) == build(
        "huffman", p, probabilities=whole
    )


def test_clients_who_never_leave_stay_flat():
    """Zeros join for nothing in any shape; among equals the smaller go first, so they are halved."""
    assert build("huffman", range(1024), probabilities={c: int(c == 0) for c in range(1024)}).depth <= 12
    assert build("shannon-fano", range(1024), probabilities={c: int(c == 0) for c in range(1024)}).depth <= 12


def test_huffman_by_hand():
    """.4 .3 .2 .1: join .1 + .2 = .3, then with .3 to .6, then all: .3 + .6 + 1 = 1.9."""
    p = {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}
    tree = build("huffman", p, probabilities=p)
    assert set(tree.sets()) >= {frozenset({2, 3}), frozenset({1, 2, 3})}
    assert score(tree, p) == pytest.approx(1.9)


def test_shannon_fano_by_hand():
    """.35 .17 .17 .16 .15 falls into .52 | .48, then .35 | .17 and .17 | .31, then .16 | .15.

    Depths 2, 2, 2, 3, 3: 2 + .16 + .15 = 2.31. Huffman: .31 + .34 + .65 + 1 = 2.3.
    """
    p = {0: 0.35, 1: 0.17, 2: 0.17, 3: 0.16, 4: 0.15}
    tree = build("shannon-fano", p, probabilities=p)
    assert set(tree.sets()) >= {frozenset({0, 1}), frozenset({2, 3, 4}), frozenset({3, 4})}
    assert score(tree, p) == pytest.approx(2.31)
    assert score(build("huffman", p, probabilities=p), p) == pytest.approx(2.3)


def test_balanced_halves():
    tree = build("balanced", range(7))
    assert tree == Tree.of([range(7), {0, 1, 2, 3}, {4, 5, 6}, {0, 1}, {2, 3}, {4, 5}])
    assert tree == build("b-ary", range(7))


def test_b_ary():
    tree = build("b-ary", range(10), branching=3)
    assert tree == Tree.of([range(10), {0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {0, 1}])
    assert build("b-ary", range(10), branching=10) == build("star", range(10))
    assert build("b-ary", range(10), branching=99) == build("star", range(10))


@pytest.mark.parametrize(
    ("b", "words"), [(1, "rfs"), (0, "2 or more"), (-3, "2 or more"), (2.5, "2 or more")]
)
def test_branching_that_is_none(b, words):
    with pytest.raises(ConfigError, match=words):
        build("b-ary", range(4), branching=b)


def test_greedy_seats_the_first_to_leave_at_the_root():
    tree = build("greedy", range(4), expires={0: 30, 1: 10, 2: 20, 3: 40})
    assert tree == Tree.of([range(4), {0, 2, 3}, {0, 3}])
    tied = build(
        "greedy", range(4), expires=dict.fromkeys(range(4), 1), probabilities={0: 1, 1: 5, 2: 5, 3: 9}
    )
    assert tied == Tree.of([range(4), {0, 1, 2}, {0, 2}])


def test_greedy_needs_every_date():
    with pytest.raises(ConfigError, match="give expires"):
        build("greedy", range(3))
    with pytest.raises(ConfigError, match="client 2 has no expiry"):
        build("greedy", range(3), expires={0: 1, 1: 2})
    with pytest.raises(ConfigError, match="expiry of client 1"):
        build("greedy", range(3), expires={0: 1, 1: float("nan"), 2: 1})


def test_a_caterpillar_of_ten_thousand():
    n = 10_000
    tree = build("greedy", range(n), expires={c: c for c in range(n)})
    assert tree.depth == n - 1
    assert tree.inner == n - 2
    # client c leaves c + 1 behind, the last two n - 1: (n(n + 1) / 2 - 1) / n
    assert score(tree) == pytest.approx((n * (n + 1) / 2 - 1) / n)
    assert hash(tree) == hash(build("greedy", reversed(range(n)), expires={c: c for c in range(n)}))


def test_unknown_kinds_and_clients_named_twice():
    with pytest.raises(ConfigError, match="Did you mean 'huffman'"):
        build("hufman", range(3))
    with pytest.raises(ConfigError, match="client 1 is named twice"):
        build("star", [1, 2, 1])
