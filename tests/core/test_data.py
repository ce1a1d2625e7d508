import numpy as np
import pytest
import torch

from support import small_data
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, ErasedDataError, RequestError


def test_erased_data_is_out_of_reach():
    data = small_data()
    data.erase(3)
    with pytest.raises(ErasedDataError, match="client 3"):
        data[3]
    assert 3 not in data
    assert 3 not in data.clients
    assert data.erased == {3}


def test_erased_samples_are_gone_and_the_others_keep_their_names():
    data = small_data(sizes=(5, 4))
    data.erase(0, [1, 3])
    assert data[0].ids.tolist() == [0, 2, 4]
    assert data[0].rows.tolist() == [0, 2, 4]
    data.erase(0, [4])
    assert data[0].ids.tolist() == [0, 2]


def test_a_fork_does_not_feel_an_erasure():
    data = small_data()
    fork = data.fork()
    fork.erase(0)
    assert 0 in data
    assert 0 not in fork
    assert fork.fork().erased == {0}


@pytest.mark.parametrize(
    ("client", "ids", "message"),
    [
        (9, None, "cannot erase client 9: this federation has clients 0, 2, 3, 4, 5"),
        (1, None, "client 1 was already erased"),
        (0, [], "no samples"),
        (0, [0, 0], "named twice"),
        (0, [2, 77], "holds no sample 77"),
        (0, [4], "already erased"),
    ],
)
def test_an_impossible_erasure_says_why(client, ids, message):
    data = small_data()
    data.erase(1)
    data.erase(0, [4])
    with pytest.raises(RequestError, match=message):
        data.erase(client, ids)


def test_impossible_data_is_refused():
    samples = Samples(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), 2)
    with pytest.raises(ConfigError, match="3 inputs but 2 targets"):
        Samples(torch.zeros(3, 2), torch.zeros(2, dtype=torch.long), 2)
    with pytest.raises(ConfigError, match="client 0 holds a row outside"):
        FederatedData(samples, {0: Shard.of([3])}, samples)
    with pytest.raises(ConfigError, match="client ids"):
        FederatedData(samples, {-1: Shard.of([0])}, samples)


def test_a_cast_changes_precision_and_nothing_else():
    data = small_data()
    double = data.cast(torch.float64)
    assert double.train.x.dtype == torch.float64
    assert double.train.y.dtype == data.train.y.dtype
    assert np.array_equal(double[2].rows, data[2].rows)
