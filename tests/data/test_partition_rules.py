"""Each kind of partition deals by the rule in its docstring: hand-computed examples."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from data_toys import balanced, label_counts, labelled, owned, rows_of, steady
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data import ByOwner, Dirichlet, DominantClass, Iid, Labels, MajorityClass, federate
from unknot.data.partition.dirichlet import log_gammas
from unknot.data.partition.dominance import dominant_counts


def test_iid_without_samples_deals_everything_in_sizes_that_differ_by_one() -> None:
    data = federate(balanced(classes=2, train=50), Iid(7), validation=0)
    # 100 = 7 × 14 + 2: the first two clients have one more.
    assert [len(data[client]) for client in data] == [15, 15, 14, 14, 14, 14, 14]


def test_iid_shares_have_about_the_labels_of_the_whole() -> None:
    data = federate(balanced(classes=2, train=2000), Iid(4), validation=0)
    for client in data:
        # Hypergeometric: 1000 rows, half of each class, deviation 13.7; six deviations are 82.
        assert abs(label_counts(data, client)[0] - 500) < 82


def test_majority_class_of_ratio_002_and_200_samples_is_169_and_3_or_4_of_each_other() -> None:
    # 200 / (1 + 9 × 0.02) = 169.49: 169 of the own class. 31 left over 9 classes: 3 each, and one
    # more for each of the 4 classes that follow the own one.
    data = federate(balanced(train=250), MajorityClass(clients=10, ratio=0.02, samples=200))
    assert label_counts(data, 0) == [169, 4, 4, 4, 4, 3, 3, 3, 3, 3]
    assert label_counts(data, 8) == [4, 4, 4, 3, 3, 3, 3, 3, 169, 4]


def test_majority_class_of_ratio_02_and_1000_samples_is_357_and_71_or_72_of_each_other() -> None:
    # 1000 / (1 + 9 × 0.2) = 357.14; 643 left = 9 × 71 + 4.
    data = federate(balanced(train=1200), MajorityClass(clients=3, ratio=0.2, samples=1000))
    assert label_counts(data, 1) == [71, 357, 72, 72, 72, 72, 71, 71, 71, 71]


def test_majority_class_of_ratio_0_is_one_class_and_of_ratio_1_all_alike() -> None:
    whole = balanced(train=100)
    assert label_counts(federate(whole, MajorityClass(12, 0, 20)), 11) == [0, 20] + [0] * 8
    assert label_counts(federate(whole, MajorityClass(12, 1, 30)), 11) == [3] * 10


def test_groups_of_clients_hold_as_many_samples_as_is_said_of_each() -> None:
    """Five clients in two groups: three of 50 samples, two of 20; 40 and 16 of them of its class."""
    data = federate(balanced(train=120), DominantClass(clients=5, samples=(50, 20)))
    assert [len(data[client]) for client in range(5)] == [50, 50, 50, 20, 20]
    assert [label_counts(data, client)[client] for client in range(5)] == [40, 40, 40, 16, 16]
    for samples in ((), (1,) * 6, (5, 0)):
        with pytest.raises(ConfigError, match="samples"):
            DominantClass(clients=5, samples=samples)


def test_dominant_class_holds_its_share_and_spreads_the_rest() -> None:
    # 80 % of 50 = 40 of class k mod 10; 10 left over 9 classes: one each, and one more.
    data = federate(balanced(train=120), DominantClass(clients=12, samples=50))
    assert label_counts(data, 3) == [1, 1, 1, 40, 2, 1, 1, 1, 1, 1]
    # Client 11 is in the second lap of classes: the extra one moves on by one class.
    assert label_counts(data, 11) == [1, 40, 1, 2, 1, 1, 1, 1, 1, 1]


def test_dominant_class_without_samples_takes_as_many_as_the_scarcest_class_allows() -> None:
    # Two clients, classes of 10 and 6 rows, half and half: n/2 + n/2 of each class, so n = 6.
    data = federate(labelled([0] * 10 + [1] * 6, [0, 1]), DominantClass(2, share=0.5), validation=0)
    assert [label_counts(data, client) for client in data] == [[3, 3], [3, 3]]


@steady
@given(st.integers(1, 40), st.integers(2, 12), st.integers(0, 60), st.integers(0, 60))
def test_dominant_counts_equal_the_slow_dealing_one_by_one(
    clients: int, classes: int, majority: int, rest: int
) -> None:
    expected = np.zeros((clients, classes), dtype=int)
    extra = rest % (classes - 1)
    for client in range(clients):
        own = client % classes
        expected[client, own] = majority
        others = [(own + step) % classes for step in range(1, classes)]
        for other in others:
            expected[client, other] = rest // (classes - 1)
        for i in range(extra):
            expected[client, others[(client // classes * extra + i) % (classes - 1)]] += 1
    assert dominant_counts(clients, classes, majority, majority + rest).tolist() == expected.tolist()


def test_labels_gives_exactly_k_labels_evenly() -> None:
    data = federate(balanced(train=100), Labels(clients=20, k=3, samples=10))
    for client in data:
        counts = label_counts(data, client)
        # 10 over three labels: 4, 3, 3; the label (client mod 10) is the first and gets the 4.
        assert sorted(counts, reverse=True)[:4] == [4, 3, 3, 0]
        assert counts[client % 10] == 4


def test_labels_draws_the_other_labels_all_alike() -> None:
    held = Labels(clients=9000, k=2).holdings(10, Key.root(0))
    assert (held[:, 0] == np.arange(9000) % 10).all()
    # The other label: 9000 draws from nine others each, 900 of each label on average, deviation 28.
    assert np.abs(np.bincount(held[:, 1], minlength=10) - 900).max() < 6 * 28
    assert (held[:, 0] != held[:, 1]).all()


def test_labels_without_samples_spreads_every_label_over_its_holders() -> None:
    data = federate(balanced(classes=3, train=10), Labels(clients=3, k=3), validation=0)
    # 10 rows of each label over three holders: 4, 3, 3.
    assert [label_counts(data, client) for client in data] == [[4, 4, 4], [3, 3, 3], [3, 3, 3]]
    one = federate(balanced(classes=3, train=10), Labels(clients=2, k=1), validation=0)
    assert [label_counts(one, client) for client in one] == [[10, 0, 0], [0, 10, 0]]


def test_dirichlet_draws_have_the_mean_and_variance_of_dirichlet() -> None:
    alpha, classes, clients = 0.5, 10, 4000
    logs = log_gammas(np.full(classes, alpha), clients, Key.root(0))
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # Dirichlet(a, ..., a) over C: mean 1/C, variance (1/C)(1 − 1/C)/(C a + 1) = 0.09/6 = 0.015.
    assert p.mean(axis=0) == pytest.approx(np.full(classes, 0.1), abs=6 * np.sqrt(0.015 / clients))
    assert p.var(axis=0).mean() == pytest.approx(0.015, rel=0.05)


def test_dirichlet_of_tiny_alpha_gives_each_client_one_class_and_of_huge_alpha_all_alike() -> None:
    whole = balanced(train=500)
    for client in (data := federate(whole, Dirichlet(30, alpha=1e-4, samples=20))):
        assert max(label_counts(data, client)) == 20
    for client in (data := federate(whole, Dirichlet(30, alpha=1e6, samples=20))):
        assert label_counts(data, client) == [2] * 10


def test_dirichlet_follows_the_frequencies_of_unequal_classes() -> None:
    data = federate(labelled([0] * 3000 + [1] * 1000, [0, 1]), Dirichlet(20, alpha=1e6, samples=40))
    assert label_counts(data, 7) == [30, 10]


def test_dirichlet_without_samples_deals_everything_and_keeps_the_minimum() -> None:
    data = federate(balanced(train=60), Dirichlet(50, alpha=0.05, min_samples=6), validation=0)
    sizes = [len(data[client]) for client in data]
    assert sum(sizes) == 600
    assert min(sizes) == 6
    free = federate(balanced(train=60), Dirichlet(50, alpha=0.05), validation=0)
    assert min(len(free[client]) for client in free) < 6  # the minimum had something to do


def test_owners_are_clients_the_largest_first() -> None:
    data = federate(owned([2, 0, 2, 1, 2, 0], [0, 1, 2, 0]), ByOwner(), validation=0)
    # Owner 2 has three rows, owner 0 two, owner 1 one.
    assert rows_of(data) == {0: [0, 2, 4], 1: [1, 5], 2: [3]}
    assert {client: rows.tolist() for client, rows in data.test_rows.items()} == {0: [2], 1: [0, 3], 2: [1]}
    assert len(data.test) == 4


def test_owners_are_taken_up_to_the_number_or_down_to_the_minimum() -> None:
    whole = owned([2, 0, 2, 1, 2, 0], [0, 1, 2])
    assert len(federate(whole, ByOwner(clients=2), validation=0)) == 2
    assert rows_of(federate(whole, ByOwner(min_samples=3), validation=0)) == {0: [0, 2, 4]}


def test_owner_without_test_rows_gives_some_of_its_training_rows() -> None:
    whole = owned([0] * 20 + [1] * 3 + [2], [3] * 5)
    data = federate(whole, ByOwner(test_share=0.2), validation=0)
    # A fifth of 20 is 4; a fifth of 3 is 0.6, rounded 1; an owner of one row keeps it.
    assert [len(data[client]) for client in data] == [16, 2, 1]
    assert [len(data.test_rows[client]) for client in data] == [4, 1, 0]
    # The held-out rows stand behind the five test rows, and are no client's any more.
    assert sorted(row for rows in data.test_rows.values() for row in rows.tolist()) == [5, 6, 7, 8, 9]
    held = {int(x) for x in data.test.x[5:, 0]}
    assert not held & {row for rows in rows_of(data).values() for row in rows}
    assert {row < 20 for row in (int(x) for x in data.test.x[data.test_rows[0], 0])} == {True}


@pytest.mark.parametrize(
    "partition", [Dirichlet(6, 5.0, 40, overlap=True), Iid(6, 40, overlap=True)], ids=repr
)
def test_overlapping_clients_draw_for_themselves(partition) -> None:
    """Each holds as many as it asks for, none twice; some hold the same; nobody's draw is another's."""
    data = federate(balanced(10, 20), partition, key=3, validation=10)
    shards = [data[client].rows for client in data]
    assert all(len(np.unique(rows)) == 40 for rows in shards)
    assert sum(map(len, shards)) > len(np.unique(np.concatenate(shards)))
    assert not np.array_equal(shards[0], shards[1])
    fewer = federate(balanced(10, 20), dataclasses.replace(partition, clients=3), key=3, validation=10)
    assert all(np.array_equal(fewer[client].rows, data[client].rows) for client in fewer)


def test_overlap_needs_samples_and_no_more_of_a_class_than_there_are() -> None:
    with pytest.raises(ConfigError, match="overlap needs samples"):
        Iid(3, overlap=True)
    with pytest.raises(ConfigError, match="asks for"):
        federate(balanced(10, 20), Dirichlet(3, 0.01, 90, overlap=True), key=0, validation=0)
