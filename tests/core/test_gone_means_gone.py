"""Erased rows leave the tensors, too: looked for with planted markers in everything that can be reached."""

import gc
import types

import numpy as np
import pytest
import torch

from support import small_data
from unknot.core.data import FederatedData, Samples, Shard

NOT_FOLLOWED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def reachable(root):
    """Every object that can be reached from `root`, but for code."""
    seen, queue = {id(root): root}, [root]
    while queue:
        for found in gc.get_referents(queue.pop()):
            if id(found) not in seen and not isinstance(found, NOT_FOLLOWED):
                seen[id(found)] = found
                queue.append(found)
    return seen.values()


def residue(root, marker: float) -> int:
    """How many numbers equal to `marker` lie in memory behind the tensors and arrays below `root`."""
    found = 0
    for thing in reachable(root):
        if isinstance(thing, torch.Tensor) and thing.dtype == torch.float32:
            memory = torch.empty(0).set_(thing.untyped_storage())
            found += int((memory == marker).sum())
        elif isinstance(thing, np.ndarray) and thing.dtype.kind == "f":
            found += int((thing == marker).sum())
    return found


def planted(data: FederatedData) -> FederatedData:
    """Every number of client k's sample i is 1000 k + i."""
    x = data.train.x.clone()
    for client in data:
        for sample, row in zip(data[client].ids, data[client].rows, strict=True):
            x[row] = 1000.0 * client + float(sample)
    return data.replaced(train=Samples(x, data.train.y.clone(), data.train.classes))


def test_the_search_finds_what_is_there():
    data = planted(small_data())
    assert residue(data, 3002.0) == 8
    assert residue({"deep": [data.train.x[:1]]}, 3002.0) == 8  # behind a view of one row, too


def test_an_erased_client_leaves_no_number_behind():
    data = planted(small_data())
    given = data.train
    fork = data.fork()
    before = {c: data.train.take(torch.from_numpy(data[c].rows)) for c in data}
    data.erase(3)
    assert not any(residue(data, 3000.0 + i) for i in range(6))
    assert all(residue(fork, 3000.0 + i) == 8 for i in range(6))
    assert all((given.x == 3000.0 + i).sum() == 8 for i in range(6))
    for client in data:
        x, y = data.train.take(torch.from_numpy(data[client].rows))
        assert torch.equal(x, before[client][0])
        assert torch.equal(y, before[client][1])


def test_labels_go_as_well():
    data = small_data()
    gone, y = data[3].rows, data.train.y.clone()
    y[gone] = 2
    data = data.replaced(train=Samples(data.train.x, y, 3))
    data.erase(3)
    assert data.train.y[gone].tolist() == [0] * 6
    assert y[gone].tolist() == [2] * 6


def test_erased_samples_leave_no_number_behind():
    data = planted(small_data())
    data.erase(3, [2, 4])
    assert [residue(data, 3000.0 + i) for i in range(6)] == [8, 8, 0, 8, 0, 8]
    data.erase(3, [0])
    assert [residue(data, 3000.0 + i) for i in range(6)] == [0, 8, 0, 8, 0, 8]


def test_the_first_erasure_makes_tensors_of_its_own_and_later_ones_write_into_them():
    data = planted(small_data())
    given = data.train
    data.erase(3)
    own = data.train
    assert own is not given
    data.erase(2)
    data.erase(1, [0])
    assert data.train is own
    assert residue(data, 2000.0) == residue(data, 1000.0) == 0


@pytest.mark.parametrize(
    "share", [lambda d: d.fork(), lambda d: d.replaced(name="twin"), lambda d: d.cast(torch.float32)]
)
def test_tensors_that_are_shared_again_are_copied_again(share):
    data = planted(small_data())
    data.erase(3)
    twin = share(data)
    data.erase(2)
    assert residue(data, 2000.0) == 0
    assert residue(twin, 2000.0) == 8
    twin.erase(1)
    assert residue(twin, 1000.0) == 0
    assert residue(data, 1000.0) == 8


def test_rows_that_somebody_else_holds_stay_until_the_last_holder_goes():
    data = planted(small_data())
    both = np.concatenate([data[0].rows, data[3].rows[:2]])
    data = data.replaced(shards={0: Shard.of(both), 3: data[3], 4: data[4]})
    data.erase(3)
    assert [residue(data, 3000.0 + i) for i in range(6)] == [8, 8, 0, 0, 0, 0]
    data.erase(0, [5])
    assert [residue(data, 3000.0 + i) for i in range(6)] == [0, 8, 0, 0, 0, 0]
    data.erase(0)
    assert residue(data, 3001.0) == 0


def test_a_row_that_a_client_holds_under_two_ids_stays_with_the_second():
    data = planted(small_data())
    data = data.replaced(shards={0: Shard.of([0, 0, 1])})
    data.erase(0, [0])
    assert data.train.x[0].tolist() == [0.0] * 8  # client 0's sample 0 was planted as zero...
    data = planted(small_data())
    row = int(data[3].rows[2])
    data = data.replaced(shards={0: Shard.of([row, row, 1])})
    data.erase(0, [0])
    assert residue(data, 3002.0) == 8  # ...and this one as 3002
    data.erase(0, [1])
    assert residue(data, 3002.0) == 0


def test_held_out_views_of_the_training_tensor_do_not_keep_it():
    data = planted(small_data())
    few = Samples(data.train.x[:2], data.train.y[:2], 3)
    data = data.replaced(test=few, validation=few)
    data.erase(3)
    assert residue(data, 3000.0) == 0
    assert torch.equal(data.test.x, few.x)
    assert torch.equal(data.validation.y, few.y)


def test_an_owners_held_out_rows_leave_every_tensor():
    """They lie in the validation and test samples, and often among the training rows that nobody holds."""
    data = planted(small_data())
    everything = data.train
    shards = {client: Shard.of(data[client].rows[2:]) for client in data}
    aside, tested = (np.array([data[c].rows[i] for c in data]) for i in (0, 1))
    data = FederatedData(
        everything,
        shards,
        everything.subset(tested),
        everything.subset(aside),
        validation_owner=np.arange(6),
        test_owner=np.arange(6),
    )
    assert all(residue(data, 3000.0 + i) for i in range(6))
    data.erase(3)
    assert not any(residue(data, 3000.0 + i) for i in range(6))
    assert residue(data, 2000.0) == residue(data, 2001.0) == 8  # now on the server alone


def test_text_and_other_whole_numbers_are_overwritten_too():
    tokens = torch.arange(1, 13).view(6, 2)
    samples = Samples(tokens, tokens % 5, 5)
    data = FederatedData(
        samples, {0: Shard.of([0, 1]), 1: Shard.of([2, 3, 4, 5])}, samples.subset(np.arange(0))
    )
    data.erase(0)
    assert data.train.x.tolist() == [[0, 0], [0, 0], [5, 6], [7, 8], [9, 10], [11, 12]]
    assert data.train.y[:2].tolist() == [[0, 0], [0, 0]]
    assert tokens[0].tolist() == [1, 2]
