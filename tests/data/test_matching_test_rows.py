"""A client's test share follows its training share."""

from __future__ import annotations

import numpy as np
import pytest
from data_toys import balanced, counts_in_test, label_counts, labelled, steady
from hypothesis import given
from hypothesis import strategies as st

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError
from unknot.data import Dirichlet, DominantClass, Iid, Labels, MajorityClass, Partition, federate, load


def _distance(data: FederatedData, client: int) -> float:
    """Total variation between the client's training and test label distributions."""
    train, test = np.array(label_counts(data, client)), np.array(counts_in_test(data, client))
    return float(np.abs(train / train.sum() - test / test.sum()).sum() / 2)


@pytest.mark.parametrize(
    "partition",
    [
        Iid(20),
        Dirichlet(20, 0.3),
        Dirichlet(20, 1.0, 200),
        DominantClass(20),
        MajorityClass(10, 0.02, 200),
        Labels(20, 3),
    ],
    ids=repr,
)
def test_test_labels_are_distributed_as_the_training_labels(partition: Partition) -> None:
    data = federate(load("digits"), partition, key=1)
    for client in data:
        size = len(data.test_rows[client])
        assert size > 0
        # Rounding to whole numbers moves less than one sample a class.
        assert _distance(data, client) <= 10 / (2 * size)


def test_majority_class_with_300_test_samples_is_hand_computed() -> None:
    # 1000 training samples are 357 + 4 × 72 + 5 × 71. Times 0.3: 107.1, 21.6, 21.3: rounded down
    # 107, 21, 21 that is 296; the four left go to the largest remainders, those of the 72s.
    data = federate(balanced(train=1500, test=400), MajorityClass(10, 0.2, 1000), test_samples=300)
    assert label_counts(data, 0) == [357, 72, 72, 72, 72, 71, 71, 71, 71, 71]
    assert counts_in_test(data, 0) == [107, 22, 22, 22, 22, 21, 21, 21, 21, 21]


def test_default_is_the_clients_part_of_the_test_samples_and_disjoint() -> None:
    data = federate(balanced(train=100, test=40), Labels(10, 1, 50))
    # 400 test rows over ten clients: 40 each, all of its one label.
    assert [len(data.test_rows[client]) for client in data] == [40] * 10
    assert counts_in_test(data, 7) == [0] * 7 + [40] + [0] * 2
    rows = np.concatenate(list(data.test_rows.values()))
    assert len(np.unique(rows)) == 400


def test_rows_are_shared_only_when_a_class_is_used_up() -> None:
    whole = balanced(classes=2, train=100, test=10)
    few = federate(whole, Labels(4, 1, 20), test_samples=5)
    assert len(np.unique(np.concatenate(list(few.test_rows.values())))) == 20
    many = federate(whole, Labels(4, 1, 20), test_samples=8)
    # Clients 0 and 2 want 16 of the ten rows of class 0: all are used, six of them twice.
    shared = np.intersect1d(many.test_rows[0], many.test_rows[2])
    assert len(shared) == 6
    assert len(np.union1d(many.test_rows[0], many.test_rows[2])) == 10


def test_default_shrinks_rather_than_change_the_proportions() -> None:
    # One client, 80 % of class 0: of 30 + 30 test rows 37 can be had (30 / 0.8 = 37.5), not 60.
    whole = balanced(classes=2, train=200, test=30)
    data = federate(whole, DominantClass(1, 0.8, 100))
    assert label_counts(data, 0) == [80, 20]
    assert counts_in_test(data, 0) == [30, 7]


def test_more_than_the_test_part_has_is_refused_when_asked_for() -> None:
    whole = balanced(classes=2, train=200, test=30)
    with pytest.raises(ConfigError, match="client 0 would need 32 of class 0; the test part has 30"):
        federate(whole, DominantClass(1, 0.8, 100), test_samples=40)


def test_class_that_nobody_can_be_tested_on_is_left_out() -> None:
    whole = labelled([0, 1, 2] * 20, [0, 1] * 10, classes=3)
    data = federate(whole, Labels(3, 1, 10))
    assert [len(data.test_rows[client]) for client in data] == [6, 6, 0]
    with pytest.raises(ConfigError, match="of class 2; the test part has 0"):
        federate(whole, Labels(3, 1, 10), test_samples=2)


@steady
@given(st.integers(1, 30), st.floats(0.05, 20), st.integers(0, 1000))
def test_no_client_has_a_test_row_twice_and_proportions_hold(clients: int, alpha: float, seed: int) -> None:
    data = federate(balanced(classes=5, train=60, test=12), Dirichlet(clients, alpha), key=seed)
    for client, rows in data.test_rows.items():
        assert len(np.unique(rows)) == len(rows)
        assert 0 < len(rows) <= max(1, 60 // clients)
        assert _distance(data, client) <= 5 / (2 * len(rows))


@steady
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_taking_all_at_once_equals_the_slow_taking_client_by_client(
    clients: int, test_samples: int, seed: int
) -> None:
    whole = balanced(classes=3, train=60, test=12)
    data = federate(whole, Labels(clients, 2), key=seed, test_samples=test_samples)
    place = [0, 0, 0]
    queues = [_queue(seed, label) for label in range(3)]
    for client in range(clients):
        mine = []
        for label, count in enumerate(counts_in_test(data, client)):
            mine += [queues[label][(place[label] + i) % 12] for i in range(count)]
            place[label] += count
        assert sorted(mine) == data.test_rows[client].tolist()


def _queue(seed: int, label: int) -> list[int]:
    """A label's test rows in keyed order, seen from twelve clients who take one each."""
    whole = balanced(classes=3, train=60, test=12)
    data = federate(whole, Labels(36, 1, 1), key=seed, test_samples=1)
    return [int(data.test_rows[client][0]) for client in range(label, 36, 3)]
