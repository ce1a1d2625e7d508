"""Data on loan: an erasure closes the door as everywhere, but the tensors are somebody else's to keep."""

import numpy as np
import pytest
import torch

from support import small_data
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ErasedDataError, RequestError


def places(data):
    """Where in memory its tensors lie."""
    parts = (data.train, data.test, data.validation)
    return [tensor.data_ptr() for part in parts for tensor in (part.x, part.y)]


def owned():
    """Two clients who own a validation and a test row each."""
    data = small_data(sizes=(4, 5))
    owner = np.array([0, 1] + [-1] * 10)
    return data.replaced(validation_owner=owner, test_owner=owner)


def assert_erasing_copies_nothing(data, client=3):
    train, before = data.train, data.train.x.clone()
    data.erase(client)
    assert data.train is train
    assert torch.equal(train.x, before)


def test_what_was_erased_is_out_of_reach():
    lent = small_data().lent()
    lent.erase(3)
    lent.erase(4, [0, 2])
    with pytest.raises(ErasedDataError, match="client 3"):
        lent[3]
    with pytest.raises(ErasedDataError, match="are not here"):
        lent[4].rows_of(np.array([0]))
    with pytest.raises(RequestError, match="already erased"):
        lent.erase(3)
    assert lent.erased == {3}
    assert lent.reduced == {4: {0, 2}}
    assert 3 not in lent.clients


def test_erasing_copies_and_overwrites_nothing():
    data = small_data()
    values = data.train.x.clone(), data.train.y.clone()
    lent = data.lent()
    lent.erase(3)
    lent.erase(4, [0, 2])
    assert lent.train is data.train
    assert places(lent) == places(data)
    assert torch.equal(data.train.x, values[0])
    assert torch.equal(data.train.y, values[1])


def test_the_lender_feels_nothing():
    data = small_data()
    data.lent().erase(3)
    assert 3 in data
    assert not data.erased


def test_what_the_lender_erases_it_erases_from_tensors_of_its_own():
    data = small_data()
    data.erase(0)  # the tensors are its own from here on...
    lent, rows = data.lent(), data[3].rows
    values = lent.train.x[rows].clone()
    data.erase(3)
    assert not data.train.x[rows].any()
    assert torch.equal(lent.train.x[lent[3].rows], values)  # ...but for those that it has lent


def test_a_leavers_held_out_rows_are_no_longer_measured_on():
    data = owned()
    lent = data.lent()
    lent.erase(1)
    assert len(lent.validation) == len(lent.test) == 11
    assert lent.validation_clients == {0}
    assert len(data.validation) == len(data.test) == 12


@pytest.mark.parametrize(
    "make",
    [
        lambda lent: lent.fork(),
        lambda lent: lent.lent(),
        lambda lent: lent.replaced(name="twin"),
        lambda lent: lent.replaced(shards={3: lent[3], 4: lent[4]}),
        lambda lent: lent.cast(torch.float32),
        lambda lent: lent.cast(torch.float64),
        lambda lent: lent.replaced(train=Samples(lent.train.x + 1, lent.train.y, 3)),
    ],
    ids=["fork", "lent", "renamed", "other shards", "cast to what it is", "cast", "other samples"],
)
def test_what_is_made_of_data_on_loan_is_on_loan(make):
    assert_erasing_copies_nothing(make(small_data().lent()))


def test_a_fork_that_is_not_on_loan_copies_as_ever():
    data = small_data()
    lent, fork = data.lent(), data.fork()
    fork.erase(3)
    assert fork.train is not data.train
    assert not fork.train.x[lent[3].rows].any()


def test_a_lent_one_remembers_who_left_before():
    data = small_data()
    data.erase(2)
    lent = data.lent()
    assert lent.erased == {2}
    with pytest.raises(ErasedDataError):
        lent[2]


def test_a_row_of_two_holders_stays_with_the_other():
    samples = Samples(torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 0]), 2)
    lent = FederatedData(samples, {0: Shard.of([0, 1]), 1: Shard.of([1, 2])}, samples).lent()
    lent.erase(0)
    assert torch.equal(samples.take(torch.from_numpy(lent[1].rows))[0], samples.x[1:])
