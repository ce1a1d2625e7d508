"""Trees that stay as they are while clients come and go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.topology import KINDS, Tree, build, keep, score


def test_a_leaf_goes_and_a_lone_child_moves_up():
    tree = Tree.of([range(5), {0, 1, 2}, {0, 1}])
    assert keep(tree, leave=[0]) == Tree.of([{1, 2, 3, 4}, {1, 2}])
    assert keep(tree, leave=[2]) == Tree.of([{0, 1, 3, 4}, {0, 1}])
    assert keep(tree, leave=[3, 4]) == Tree.of([{0, 1, 2}, {0, 1}])
    assert keep(tree, leave=[0, 1, 2]) == Tree.of([{3, 4}])
    assert keep(tree) == tree


def test_newcomers_sit_beside_the_old_root():
    tree = Tree.of([range(3), {0, 1}])
    assert keep(tree, join=[7]) == Tree.of([{0, 1, 2, 7}, {0, 1, 2}, {0, 1}])
    assert keep(tree, join=[7, 8, 9]) == Tree.of([{0, 1, 2, 7, 8, 9}, {0, 1, 2}, {0, 1}, {7, 8, 9}, {7, 8}])
    assert keep(tree, leave=[2], join=[5]) == Tree.of([{0, 1, 5}, {0, 1}])


def test_the_last_client_leaves_an_empty_tree():
    assert not keep(build("star", [4]), leave=[4])
    assert keep(build("star", range(3)), leave=range(3)) == Tree()
    assert keep(Tree(), join=[3]) == Tree.of([{3}])
    assert keep(Tree(), join=[3, 4]) == Tree.of([{3, 4}])
    assert keep(build("star", [4]), leave=[4], join=[4]).order == (4,)


def test_who_cannot_leave_or_join():
    tree = build("star", range(3))
    with pytest.raises(ConfigError, match="client 5 cannot leave"):
        keep(tree, leave=[5])
    with pytest.raises(ConfigError, match="client 5 cannot leave"):
        keep(Tree(), leave=[5])
    with pytest.raises(ConfigError, match="client 2 cannot join"):
        keep(tree, join=[2])
    with pytest.raises(ConfigError, match="client 8 is named twice"):
        keep(tree, join=[8, 8])


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.sampled_from(sorted(set(KINDS) - {"greedy", "budget"})), st.integers(1, 12), st.data())
def test_sequences_of_leaves_and_joins(kind, n, data):
    """Every kept node is an old one less the leavers; all of those are kept; newcomers are together."""
    tree = build(kind, range(n))
    fresh = n
    for _ in range(data.draw(st.integers(1, 5))):
        old = tree
        leave = data.draw(st.sets(st.sampled_from(sorted(tree.clients)))) if tree else set()
        join = list(range(fresh, fresh + data.draw(st.integers(0, 3))))
        fresh += len(join)
        tree = keep(old, leave, join)
        assert tree.clients == (old.clients - leave) | set(join)
        rest = {s - leave for s in old.sets()} - {frozenset()}
        assert {s for s in tree.sets() if not s & set(join)} == rest
        if tree:
            assert Tree.of(tree.sets()) == tree
        if rest and join:
            assert frozenset(join) in tree.sets()


def test_a_deep_tree_stays_flat_to_handle():
    n = 10_000
    tree = build("greedy", range(n), expires={c: c for c in range(n)})
    left = keep(tree, leave=range(0, n, 2), join=[n])
    assert left.depth == n // 2
    assert score(left) > 0
