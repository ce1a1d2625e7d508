"""Held-out rows that belong to a client go where the client goes."""

import numpy as np
import pytest
import torch

from support import small_data
from unknot.audit.backdoor import Trigger, marked
from unknot.core.data import FederatedData
from unknot.core.errors import DataError
from unknot.data.corrupt import corrupt

VALIDATION = np.array([3, -1, 0, 3, 2, -1, 0, 3, 1, 1, 2, -1])
TEST = np.array([0, 3, 3, -1, 1, 2, 0, -1, 5, 4, 3, 0])


def owned(**options) -> FederatedData:
    shares = {k: np.flatnonzero(np.equal(TEST, k)) for k in range(6)}
    shares[1] = np.array([9, 4, 11])  # in an order of its own, with rows of others
    return small_data(**options).replaced(validation_owner=VALIDATION, test_owner=TEST, test_rows=shares)


def test_an_erased_clients_held_out_rows_go_and_the_others_keep_their_order():
    data, whole = owned(), owned()
    data.erase(3)
    for part, owner in (("validation", VALIDATION), ("test", TEST)):
        stays = torch.from_numpy(owner != 3)
        left, was = getattr(data, part), getattr(whole, part)
        assert torch.equal(left.x, was.x[stays])
        assert torch.equal(left.y, was.y[stays])
        assert getattr(data, f"{part}_owner").tolist() == owner[owner != 3].tolist()
    assert len(whole.validation) == len(whole.test) == 12


def test_test_shares_point_to_what_they_pointed_to():
    data, whole = owned(), owned()
    data.erase(3)
    assert 3 not in data.test_rows
    for client in data:
        mine, was = data.test.subset(data.test_rows[client]), whole.test.subset(whole.test_rows[client])
        assert torch.equal(mine.x, was.x)
        assert torch.equal(mine.y, was.y)
    data.erase(0)  # client 1's share had one of client 0's rows: it goes from there, too
    assert torch.equal(data.test.subset(data.test_rows[1]).x, whole.test.x[[9, 4]])


def test_whose_rows_are_in_the_validation_data_is_known():
    data = owned()
    assert data.validation_clients == {0, 1, 2, 3}
    data.erase(3)
    assert data.validation_clients == {0, 1, 2}
    assert small_data().validation_clients == frozenset()


def test_validation_data_that_was_erasable_to_the_last_row_is_empty_not_missing():
    data = small_data().replaced(validation_owner=np.full(12, 4), test_owner=np.full(12, 4))
    data.erase(4)
    assert len(data.validation) == len(data.test) == 0
    assert data.validation.x.shape == (0, 8)
    data.erase(0)
    assert data.fork().validation_clients == frozenset()


def test_erasing_samples_leaves_the_clients_held_out_rows():
    data = owned()
    validation, test = data.validation, data.test
    data.erase(3, [0, 1])
    assert data.validation is validation
    assert data.test is test
    assert data.validation_clients == {0, 1, 2, 3}


def test_rows_of_nobody_stay():
    data = small_data()
    validation, test = data.validation, data.test
    for client in range(5):
        data.erase(client)
    assert data.validation is validation
    assert data.test is test


def test_an_erasure_in_a_fork_leaves_the_others_held_out_rows():
    data = owned()
    fork = data.fork()
    fork.erase(3)
    assert len(data.validation) == len(data.test) == 12
    assert 3 in data.test_rows
    assert data.validation_owner.tolist() == VALIDATION.tolist()
    assert data.test_rows[1].tolist() == [9, 4, 11]


@pytest.mark.parametrize(
    "copy",
    [
        lambda d: d.fork(),
        lambda d: d.replaced(name="other"),
        lambda d: d.cast(torch.float64),
        lambda d: corrupt(d, [1, 3], "labels"),
        lambda d: marked(d, [2], Trigger(size=1)),
    ],
    ids=["fork", "replaced", "cast", "corrupt", "marked"],
)
def test_owners_go_with_every_copy(copy):
    twin = copy(owned(shape=(1, 2, 2)))
    assert twin.validation_owner.tolist() == VALIDATION.tolist()
    assert twin.test_owner.tolist() == TEST.tolist()
    twin.erase(3)
    assert (len(twin.validation), len(twin.test)) == (9, 9)


def test_without_its_shard_an_owner_is_nobody():
    data = owned().replaced(shards={c: owned()[c] for c in (0, 3)})
    assert data.validation_clients == {0, 3}
    assert data.test_owner.tolist() == [o if o in (0, 3) else -1 for o in TEST]
    assert owned().replaced(validation=None).validation_clients == frozenset()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"validation_owner": VALIDATION[:5]},
            "validation_owner must be .* each of the 12 validation samples",
        ),
        ({"test_owner": np.full(12, 6)}, "a test sample belongs to client 6, but .* clients 0 to 5"),
        ({"test_owner": np.full(12, -2)}, "belongs to client -2.* -1 stands for nobody"),
        ({"validation": None, "validation_owner": VALIDATION}, "the 0 validation samples"),
    ],
)
def test_owners_that_cannot_be_are_refused(parts, message):
    with pytest.raises(DataError, match=message):
        small_data().replaced(**parts)
