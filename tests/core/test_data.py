import numpy as np
import pytest
import torch

from support import small_data
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import DataError, ErasedDataError, RequestError


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
    with pytest.raises(DataError, match="3 inputs but 2 targets"):
        Samples(torch.zeros(3, 2), torch.zeros(2, dtype=torch.long), 2)
    with pytest.raises(DataError, match="client 0, sample 0"):
        FederatedData(samples, {0: Shard.of([3])}, samples)
    with pytest.raises(RequestError, match="-1"):
        FederatedData(samples, {-1: Shard.of([0])}, samples)


def test_a_cast_changes_precision_and_nothing_else():
    data = small_data()
    double = data.cast(torch.float64)
    assert double.train.x.dtype == torch.float64
    assert double.train.y.dtype == data.train.y.dtype
    assert np.array_equal(double[2].rows, data[2].rows)


def test_a_cast_to_the_precision_that_is_there_costs_nothing():
    data = small_data()
    assert data.cast(torch.float32).train is data.train


@pytest.mark.parametrize("ids", [["0", "1"], [0.5], [True, 2], [None], [-1], "01", [0, 0]])
def test_ids_that_are_no_whole_numbers_erase_nothing(ids):
    data = small_data()
    for attempt in (data.check_erasable, data.erase):
        with pytest.raises(RequestError, match="client 3"):
            attempt(3, ids)
    assert data[3].ids.tolist() == list(range(6))
    assert not data.reduced


@pytest.mark.parametrize("client", [0.5, True, None, float("nan"), [0]])
def test_a_client_that_is_no_whole_number_is_not_erased(client):
    data = small_data()
    with pytest.raises(RequestError, match="a client's id must be a whole number"):
        data.erase(client)
    assert data.clients == tuple(range(6))


def test_numpys_numbers_erase_as_plain_ones_do():
    data = small_data()
    data.erase(np.int64(3), np.array([0, 2]))
    data.erase(torch.tensor(4))
    assert data[3].ids.tolist() == [1, 3, 4, 5]
    assert data.erased == {4}
    assert data.reduced == {3: {0, 2}}
    assert all(type(i) is int for i in (*data.erased, *data.reduced, *data.reduced[3]))


def test_what_was_erased_from_those_who_stay_is_remembered():
    data = small_data()
    data.erase(0, [1])
    data.erase(0, [3])
    data.erase(1, [2])
    fork = data.fork()
    fork.erase(1)
    assert data.reduced == {0: {1, 3}, 1: {2}}
    assert fork.reduced == {0: {1, 3}}
    assert fork.cast(torch.float64).reduced == {0: {1, 3}}
    assert fork.cast(torch.float64).erased == {1}
    back = fork.replaced(shards={0: Shard.of([0, 1]), 1: Shard.of([2])})
    assert (back.erased, back.reduced) == (frozenset(), {0: {3}})


def test_a_federations_data_says_what_it_is():
    data = small_data()
    assert (
        repr(data) == "FederatedData('data': 33 samples of clients 0 to 5, 12 for validation, 12 for testing)"
    )
    data.erase(1)
    assert repr(data).endswith("1 erased)")
    assert repr(data.train) == "Samples(33 of 8 float32, labels of 3 classes)"
    assert repr(data[0]) == "Shard(5 samples)"


def test_who_was_erased_is_not_among_the_names_that_are_suggested():
    samples = Samples(torch.zeros(3, 1), torch.tensor([0, 1, 0]), classes=2)
    shards = {c: Shard(np.array([c]), np.array([0])) for c in range(3)}
    names = {0: "Graz", 1: "Linz", 2: "Wien"}
    data = FederatedData(samples, shards, samples, names=names)
    data.erase(0)
    for word in ("Nobody", "Gratz"):
        with pytest.raises(RequestError, match=f"'{word}'.*Known: Linz, Wien"):
            data.number(word)
    assert data.number("Graz") == 0
