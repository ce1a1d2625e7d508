"""KNOT's assignment against every assignment there is, against the paper's sum, and its edges."""

from itertools import product

import numpy as np
import pytest
from allassignments import by_flow, first_within, memberships, ordered, valid, vector
from hypothesis import given, settings
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.topology import Assignment, Bounds, assign, random_clusters, ratings, similar_clusters


def all_bounds(clients):
    return [(low, high) for high in range(1, clients + 1) for low in range(high + 1)]


def compare(table):
    """All c1, c2, c3 for one table of ratings; how many could be met."""
    clients, clusters = table.shape
    met = 0
    for c1 in range(1, clusters + 1):
        x, vectors = ordered(table, c1)
        for c2, c3 in all_bounds(clients):
            place = first_within(x, c2, c3)
            if place is None:
                with pytest.raises(ConfigError, match=r"c[23] is"):
                    assign(table, c1, c2, c3)
                continue
            met += 1
            chosen = assign(table, c1, c2, c3)
            assert valid(table, chosen, c1, c2, c3)
            assert vector(table, chosen) == vectors[place].tolist(), (table, c1, c2, c3, chosen)
            assert sum(map(len, chosen)) == x[place].sum(), "no membership without need"
    return met


SHAPES = [*product(range(1, 5), range(1, 4)), (2, 4), (3, 4), (5, 2), (6, 2)]


@pytest.mark.parametrize(("clients", "clusters"), SHAPES)
def test_none_of_all_assignments_is_better(clients, clusters):
    rng = np.random.default_rng([clients, clusters])
    met = 0
    for top in [1, 2, 3, 4, 6, 10, 100]:
        met += compare(rng.integers(0, top + 1, (clients, clusters)))
        met += compare(rng.integers(1, top + 1, (clients, clusters)))
    assert met > 20 * (clusters > 1)


@pytest.mark.parametrize(("clients", "top"), [(5, 2), (5, 100), (6, 3)])
def test_none_of_all_assignments_is_better_for_more_clients(clients, top):
    assert compare(np.random.default_rng([clients, top]).integers(0, top + 1, (clients, 3))) > 30


def test_there_are_that_many_assignments():
    """Of 3 clusters, 3 sets of one and 3 of two: 6 choices for each of 4 clients."""
    assert len(memberships(4, 3, 2)) == 6**4
    assert len(memberships(6, 3, 3)) == 7**6


BIG = [
    (1, None, None),
    (1, 12, 12),
    (1, 5, 13),
    (1, 0, 60),
    (2, 15, 20),
    (2, 24, 24),
    (3, 30, 60),
    (5, 33, 40),
    (5, 60, 60),
]


@pytest.mark.parametrize(("c1", "c2", "c3"), BIG)
@pytest.mark.parametrize("kind", ["drawn", "ties", "knot"])
def test_the_papers_sum_in_integers_agrees(kind, c1, c2, c3):
    rng = np.random.default_rng([7, c1, c2 or 0])
    table = {
        "drawn": rng.integers(0, 101, (60, 5)),
        "ties": rng.integers(0, 4, (60, 5)),
        "knot": ratings(rng.pareto(1.0, 60) + 1, rng.beta(2, 5, 60), 5),
    }[kind]
    bounds = Bounds.of(60, 5, c1, c2, c3)
    want = by_flow(table, bounds.c1, bounds.c2, bounds.c3)
    chosen = assign(table, c1, c2, c3)
    assert valid(table, want, bounds.c1, bounds.c2, bounds.c3)
    assert valid(table, chosen, bounds.c1, bounds.c2, bounds.c3)
    assert vector(table, chosen) == vector(table, want)


# Someone fits nowhere, so one match of 100 is in every assignment; what the others get is lost beside it.
HARD = np.array([[100, 100, 100], [1, 2, 3], [3, 1, 2], [1, 3, 2], [2, 1, 3], [2, 3, 1]])


def wrong_answer(cost):
    """The assignment that a cost in doubles prefers."""
    x = memberships(6, 3, 1)
    sizes = x.sum(1)
    x = x[((sizes >= 1) & (sizes <= 3)).all(1)]
    sums = cost(x * HARD.astype(np.float64)).reshape(len(x), -1).sum(1)
    return [tuple(np.flatnonzero(row).tolist()) for row in x[sums.argmin()]]


def test_the_known_mistakes_give_another_answer():
    """Doubles cannot see 18^3 beside 18^100, and a wrong sign seeks the worst match."""
    right = vector(HARD, assign(HARD, 1, 1, 3))
    assert right == [100, 1, 1, 1, 1, 1, *[0] * 12]
    assert 18.0**100 + 18.0**3 == 18.0**100
    doubles = vector(HARD, wrong_answer(lambda f: 18.0**f))
    assert doubles[0] == right[0]
    assert doubles > right
    turned = vector(HARD, wrong_answer(lambda f: -f))
    assert turned > right
    with pytest.raises(OverflowError):
        1250.0**100  # noqa: B018  (250 clients, 5 clusters: the paper's FEMNIST)


def test_by_hand():
    """Both prefer cluster 0, which has room for one. 9 + 0 or 3 + 5: the worst match is 5, not 9."""
    assert assign([[0, 5], [3, 9]], 1, 0, 1) == [(1,), (0,)]
    # The least sum would be 0 + 6 = 6 with the worst 6; 4 + 4 is worse in sum, and better.
    assert assign([[0, 4], [4, 6]], 1, 0, 1) == [(1,), (0,)]
    # Cluster 1 must hold one or two: those that fit it least badly.
    assert assign([[0, 7], [0, 5], [0, 6]], 1, 1, 2) == [(0,), (1,), (0,)]
    assert assign([[0, 7], [0, 5], [0, 6], [0, 9]], 1, 2, 2) == [(0,), (1,), (1,), (0,)]
    # Three clients for two clusters of two: client 1 is worse off in both than in cluster 1 alone, client 2
    # joins cluster 0 at the least price.
    assert assign([[0, 7], [4, 5], [3, 6]], 2, 2, 3) == [(0,), (1,), (0, 1)]


def test_free_memberships_are_not_taken_without_need():
    assert assign([[0, 0, 0]] * 3, 3, 0, 3) == [(0,), (0,), (0,)]
    chosen = assign([[0, 0, 0]] * 3, 3, 2, 3)
    assert sum(map(len, chosen)) == 6


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_of_rows_does_not_matter(data):
    clients, clusters = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    cells = st.lists(st.integers(0, 5), min_size=clusters, max_size=clusters)
    rows = data.draw(st.lists(cells, min_size=clients, max_size=clients))
    order = data.draw(st.permutations(range(clients)))
    c1 = data.draw(st.integers(1, clusters))
    chosen = assign(rows, c1)
    again = assign([rows[i] for i in order], c1)
    moved = [(rows[i], of) for i, of in zip(order, again, strict=True)]
    assert sorted(zip(rows, chosen, strict=True)) == sorted(moved)
    for one in range(clients):
        for two in range(one + 1, clients):
            assert rows[one] != rows[two] or chosen[one] <= chosen[two]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=9))
def test_only_the_order_of_levels_counts(rows):
    table = np.array(rows)
    stretched = np.array([0, 2, 3, 7, 20, 21, 40, 77, 99, 1000])[table]
    assert assign(stretched) == assign(table)


@pytest.mark.parametrize(
    ("clients", "clusters", "bounds"),
    [
        (100, 5, (1, 10, 50)),
        (250, 5, (1, 25, 125)),
        (7, 2, (1, 1, 4)),
        (7, 1, (1, 3, 7)),
        (1, 1, (1, 0, 1)),
        (1, 4, (1, 0, 1)),
        (3, 2, (1, 0, 2)),
        (3, 9, (1, 0, 2)),
    ],
)
def test_the_papers_bounds(clients, clusters, bounds):
    assert Bounds.of(clients, clusters) == Bounds(*bounds)


def test_default_bounds_can_always_be_met():
    for clients, clusters in product(range(1, 14), range(1, 8)):
        bounds = Bounds.of(clients, clusters)
        chosen = assign(np.ones((clients, clusters), dtype=int))
        assert valid(np.ones((clients, clusters)), chosen, 1, bounds.c2, bounds.c3)


def test_a_default_gives_way_to_what_is_asked():
    assert Bounds.of(100, 5, c3=20) == Bounds(1, 10, 20)
    assert Bounds.of(10, 2, c2=5) == Bounds(1, 5, 5)
    assert Bounds.of(100, 50, c1=9, c3=2) == Bounds(9, 1, 2)
    assert Bounds.of(20, 2, c1=2, c2=20) == Bounds(2, 20, 20)
    assert Bounds.of(4, 2, c1=7, c3=9) == Bounds(2, 1, 4), "more than there are is all of them"


@pytest.mark.parametrize(
    ("c1", "c2", "c3", "words"),
    [
        (0, None, None, "c1 is 0: .* 1 or more"),
        (1.5, None, None, "c1 is 1.5: .* whole number"),
        (True, None, None, "c1 is True"),
        (1, -1, None, "c2 is -1"),
        (1, None, 0, "c3 is 0"),
        (1, 4, 3, "c2 is 4 and c3 is 3"),
        (1, 7, None, "c2 is 7: .* 6 clients"),
        (1, 4, None, "c2 is 4: 2 clusters of at least 4 need 8 .* lower c2 to 3 or raise c1"),
        (1, 0, 2, "c3 is 2: .* raise c3 to 3"),
    ],
)
def test_bounds_that_cannot_be_met(c1, c2, c3, words):
    with pytest.raises(ConfigError, match=words):
        assign(np.zeros((6, 2), dtype=int), c1, c2, c3)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "shape"),
        ([[], []], "shape"),
        ([1, 2], "shape"),
        ([[1, 2], [3]], "not a table"),
        ([[0.5, 1.0]], "whole numbers"),
        ([[float("nan"), 1.0]], "whole numbers"),
        ([[3, 4], [0, -2]], "client 1 for cluster 1 is -2"),
    ],
)
def test_ratings_that_cannot_be_used(table, words):
    with pytest.raises(ConfigError, match=words):
        assign(table)


def test_an_assignment_tells_its_clusters_and_levels():
    found = Assignment(np.array([[0, 5, 9], [3, 9, 9], [5, 5, 9]]), [(1,), (0,), (0, 1)])
    assert found.clusters == [(1, 2), (0, 2), ()]
    assert list(found.levels.items()) == [(5, 3), (3, 1)]
    assert [found.worst(n) for n in range(3)] == [5, 5, None]


# The baselines.

KEY = Key.root(3)


def test_random_clusters_are_even_and_do_not_depend_on_order():
    found = random_clusters(range(17), 5, KEY)
    assert sorted(len(c) for c in found) == [3, 3, 3, 4, 4]
    assert sorted(k for c in found for k in c) == list(range(17))
    assert random_clusters(reversed(range(17)), 5, KEY) == found
    assert random_clusters(range(17), 5, Key.root(4)) != found
    assert random_clusters([5], 1, KEY) == [(5,)]


def test_random_clusters_are_uniform():
    """Each of two clients is in cluster 0 in half of the draws: 500 ± 3 × 16."""
    count = sum(1 in random_clusters([1, 8], 2, Key.root(seed))[0] for seed in range(1000))
    assert 450 < count < 550


def test_similar_clusters_find_directions():
    rng = np.random.default_rng(0)
    directions = np.eye(12)[:3]
    updates = {
        k: (1 + 9 * rng.random()) * (directions[k % 3] + 0.1 * rng.standard_normal(12)) for k in range(30)
    }
    want = [tuple(range(start, 30, 3)) for start in range(3)]
    assert similar_clusters(updates, 3, KEY) == want
    assert similar_clusters(np.stack(list(updates.values())), 3, Key.root(8)) == want
    assert similar_clusters(dict(reversed(updates.items())), 3, KEY) == want


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 3), st.integers(0, 99))
def test_no_similar_cluster_is_empty(clients, clusters, values, seed):
    clusters = min(clients, clusters)
    updates = np.random.default_rng(seed).integers(-values, values + 1, (clients, 2))
    found = similar_clusters(updates, clusters, Key.root(seed))
    assert all(found)
    assert sorted(k for c in found for k in c) == list(range(clients))


@pytest.mark.parametrize("clusters", [0, 4, 1.5])
def test_baselines_refuse(clusters):
    for call in (
        lambda: random_clusters(range(3), clusters, KEY),
        lambda: similar_clusters(np.eye(3), clusters, KEY),
    ):
        with pytest.raises(ConfigError, match="clusters"):
            call()
    with pytest.raises(ConfigError, match=r"client 1 .* not finite"):
        similar_clusters([[1.0, 2.0], [float("nan"), 1.0]], 1, KEY)
    with pytest.raises(ConfigError, match="client 7 has 1 numbers"):
        similar_clusters({3: [1.0, 2.0], 7: [1.0]}, 1, KEY)
