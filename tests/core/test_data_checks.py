"""Data is checked where it enters: what nobody could train with is refused, by the name of its holder."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from support import small_data
from unknot.core import samples as samples_module
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import DataError


def spoilt(client=3, sample=5, *, label=None, feature=None, shape=(8,)):
    """A small federation with one wrong row."""
    data = small_data(shape=shape)
    row = int(data[client].rows[sample])
    x, y = data.train.x.clone(), data.train.y.clone()
    if label is not None:
        y[row] = label
    if feature is not None:
        place, value = feature
        x[row].view(-1)[place] = value
    return data, Samples(x, y, data.train.classes)


@pytest.mark.parametrize("label", [3, 12, -1])
def test_a_label_that_is_no_class_is_refused_by_client_and_sample(label):
    data, train = spoilt(label=label)
    expected = rf"^client 3, sample 5: label {label}, but there are 3 classes \(0 to 2\)$"
    with pytest.raises(DataError, match=expected):
        data.replaced(train=train)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_feature_that_is_no_finite_number_is_refused_by_client_sample_and_place(value):
    data, train = spoilt(2, 1, feature=(17, value), shape=(1, 5, 5))
    with pytest.raises(DataError, match=rf"^client 2, sample 1: feature 17 is {value}, but features must"):
        data.replaced(train=train)


def test_a_sample_goes_by_its_id_whatever_its_row():
    data, train = spoilt(3, 5, label=7)
    shards = {0: Shard(data[3].rows[3:], np.array([4, 6, 9]))}
    with pytest.raises(DataError, match=r"^client 0, sample 9: label 7"):
        data.replaced(train=train, shards=shards)


def test_rows_that_nobody_holds_do_not_matter():
    data, train = spoilt(3, 5, label=99, feature=(0, math.nan))
    data.erase(3, [5])
    assert data.replaced(train=train)[3].ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("part", ["validation", "test"])
def test_held_out_samples_are_checked_too(part):
    data = small_data()
    good = getattr(data, part)
    labels, inputs = good.y.clone(), good.x.clone()
    labels[4], inputs[7, 2] = 3, math.nan
    with pytest.raises(DataError, match=f"^{part} sample 4: label 3, but there are 3 classes"):
        data.replaced(**{part: replace(good, y=labels)})
    with pytest.raises(DataError, match=f"^{part} sample 7: feature 2 is nan"):
        data.replaced(**{part: replace(good, x=inputs)})


def test_a_wrong_character_of_a_text_is_found():
    tokens = torch.arange(12).view(3, 4) % 5
    wrong = tokens.clone()
    wrong[1, 2] = 5
    test = Samples(tokens, tokens, 5)
    FederatedData(test, {0: Shard.of([0, 1, 2])}, test)
    with pytest.raises(DataError, match="client 0, sample 1: label 5 at position 2"):
        FederatedData(Samples(tokens, wrong, 5), {0: Shard.of([0, 1, 2])}, test)


def test_large_numbers_whose_sum_overflows_are_fine():
    data = small_data()
    for dtype in (torch.float16, torch.float32):
        huge = torch.full_like(data.train.x, torch.finfo(dtype).max, dtype=dtype)
        assert not huge.sum().isfinite()
        assert data.replaced(train=replace(data.train, x=huge)).clients == data.clients


def test_opposite_infinities_do_not_cancel():
    data, train = spoilt(1, 0, feature=(0, math.inf))
    train.x[data[1].rows[0], 1] = -math.inf
    with pytest.raises(DataError, match="client 1, sample 0: feature 0 is inf"):
        data.replaced(train=train)


def test_a_wrong_row_is_found_in_any_chunk(monkeypatch):
    monkeypatch.setattr(samples_module, "_CHUNK", 17)  # two rows of eight at a time
    for client, sample in ((0, 0), (1, 7), (3, 2), (5, 3)):
        for fault, said in (({"label": 9}, "label 9"), ({"feature": (6, math.nan)}, "feature 6 is nan")):
            data, train = spoilt(client, sample, **fault)
            with pytest.raises(DataError, match=f"^client {client}, sample {sample}: {said}"):
                data.replaced(train=train)


def test_the_whole_data_is_looked_at_once(monkeypatch):
    data = small_data()
    looked = []
    wrong = Samples._wrong
    monkeypatch.setattr(Samples, "_wrong", lambda self, y: looked.append(1) or wrong(self, y))
    data.fork().replaced(shards={c: data[c] for c in (0, 1)}).cast(torch.float32).fork()
    assert not looked
    data.cast(torch.float64)
    assert looked == [1] * 3  # targets of three new sets of samples


class Allocations(TorchDispatchMode):
    """Sees the largest memory behind what any operation returns, but for views of `given`."""

    def __init__(self, given):
        super().__init__()
        self.given = given.untyped_storage().data_ptr()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() != self.given:
                self.largest = max(self.largest, tensor.untyped_storage().nbytes())
        return out


def test_memory_mapped_data_is_read_in_place(tmp_path):
    path = tmp_path / "inputs"
    np.zeros((20_000, 500), dtype=np.float32).tofile(path)  # 40 MB
    x = torch.from_numpy(np.memmap(path, dtype=np.float32, mode="r+", shape=(20_000, 500)))
    train = Samples(x, torch.zeros(20_000, dtype=torch.int64), 2)
    with Allocations(x) as made:
        data = FederatedData(train, {0: Shard.of(range(20_000))}, train)
    assert data.train.x.data_ptr() == x.data_ptr()
    assert 0 < made.largest <= 8 * samples_module._CHUNK


LABELS = torch.tensor([0, 1, 0])


@pytest.mark.parametrize(
    ("x", "y", "classes", "message"),
    [
        (np.zeros((3, 2)), LABELS, 2, "inputs must be a tensor of numbers.*found ndarray"),
        (torch.zeros(3, 2, dtype=torch.bool), LABELS, 2, "inputs must be .* found bool of shape"),
        (torch.zeros(3, 2, dtype=torch.complex64), LABELS, 2, "inputs must be .* found complex64"),
        (torch.tensor(0.0), LABELS, 2, r"inputs must be .* of shape \(\)"),
        (torch.zeros(3, 2), [0, 1, 0], 2, "targets must be a tensor of whole numbers.*found list"),
        (torch.zeros(3, 2), LABELS.float(), 2, "targets must be .* found float32"),
        (torch.zeros(3, 2), LABELS.bool(), 2, "targets must be .* found bool"),
        (torch.zeros(3, 2), LABELS.view(3, 1, 1), 2, r"targets must be .* of shape \(3, 1, 1\)"),
        (torch.zeros(3, 2), LABELS[:2], 2, "3 inputs but 2 targets"),
        (torch.zeros(3, 2), LABELS, 0, "classes is 0"),
    ],
)
def test_samples_of_a_wrong_kind_are_refused(x, y, classes, message):
    with pytest.raises(DataError, match=message):
        Samples(x, y, classes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_labels_may_be_whole_numbers_of_any_width(dtype):
    samples = Samples(torch.zeros(3, 2), LABELS.to(dtype), np.int64(2))
    assert FederatedData(samples, {0: Shard.of([0, 2])}, samples).clients == (0,)
    assert type(samples.classes) is int


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (np.arange(2.0), np.arange(2)),
        (np.arange(2), np.array([False, True])),
        (np.arange(4).reshape(2, 2), np.arange(2)),
        (np.arange(2), np.arange(3)),
    ],
)
def test_a_shard_is_whole_numbers_and_as_many_ids(rows, ids):
    with pytest.raises(DataError):
        Shard(rows, ids)


BAD_SHARDS = [
    (Shard([0, 1], [1, 0]), 0),
    (Shard([0, 1, 2], [0, 4, 4]), 4),
    (Shard([0, 1], [-1, 0]), -1),
    (Shard.of([0, 33]), 1),
    (Shard.of([-1]), 0),
]


@pytest.mark.parametrize(("shard", "sample"), BAD_SHARDS)
@pytest.mark.parametrize("others", [{}, {2: Shard.of([]), 3: Shard.of([3]), 9: Shard.of([4, 5])}])
def test_a_shard_that_cannot_be_is_refused_by_client(shard, sample, others):
    with pytest.raises(DataError, match=f"^client 7, sample {sample}: "):
        small_data().replaced(shards={7: shard, **others})


def test_narrow_whole_numbers_point_to_rows_as_well():
    data = small_data()
    shard = Shard(np.arange(3, dtype=np.int32), np.arange(3, dtype=np.uint8))
    assert data.replaced(shards={0: shard})[0].rows.dtype == np.int64


def test_a_client_without_samples_is_a_client_like_any_other():
    data = small_data(sizes=(5, 0, 3))
    assert data.clients == (0, 1, 2)
    assert len(data[1]) == 0
    data.erase(1)
    assert data.erased == {1}


HELD_OUT = {
    "inputs of shape": Samples(torch.randn(4, 9), torch.zeros(4).long(), 3),
    "targets of shape": Samples(torch.randn(4, 8), torch.zeros(4, 2).long(), 3),
    "classes:": Samples(torch.randn(4, 8), torch.full((4,), 4), 5),
    "inputs of type": Samples(torch.zeros(4, 8).long(), torch.zeros(4).long(), 3),
}


@pytest.mark.parametrize("what", HELD_OUT)
@pytest.mark.parametrize("part", ["test", "validation"])
def test_held_out_samples_of_another_kind_are_refused_before_any_training(part, what):
    with pytest.raises(DataError, match=f"the {part} samples are of another kind .* {what}"):
        small_data().replaced(**{part: HELD_OUT[what]})


# Public samples -------------------------------------------------------------------------------------


def test_public_samples_are_nobodys_and_outlive_every_erasure():
    data = small_data()
    before = data.public.clone()
    fork = data.fork()
    for client in list(fork):
        fork.erase(client)
    assert torch.equal(fork.public, before)
    assert torch.equal(data.replaced(train=data.train).public, before)
    assert data.cast(torch.float64).public.dtype == torch.float64


def test_public_samples_that_are_part_of_a_larger_tensor_are_cut_out_of_it_by_an_erasure():
    """Otherwise whatever else lies there, an erased client's rows perhaps, would live as long."""
    data = small_data()
    whole = torch.cat([data.train.x, data.public])
    twin = data.replaced(public=whole[len(data.train) :]).fork()
    twin.erase(3)
    assert twin.public.untyped_storage().nbytes() == twin.public.numel() * 4
    assert torch.equal(twin.public, data.public)


@pytest.mark.parametrize(
    "public",
    [
        torch.zeros(3, 7),
        torch.zeros(0, 8),
        torch.zeros(3, 8, dtype=torch.int64),
        torch.tensor([[0.0] * 8, [float("nan")] * 8]),
    ],
)
def test_bad_public_samples_are_refused(public):
    with pytest.raises(DataError, match="public"):
        small_data().replaced(public=public)


held = st.lists(
    st.tuples(st.lists(st.integers(-1, 6), max_size=3), st.lists(st.integers(-1, 6), max_size=3)).map(
        lambda parts: (parts[0][: len(parts[1])], parts[1][: len(parts[0])])
    ),
    max_size=5,
)


@given(held)
def test_many_shards_at_once_are_judged_as_one_by_one(parts):
    data = small_data()
    samples = data.train.subset(np.arange(6))
    shards = {c: Shard(np.array(rows, int), np.array(ids, int)) for c, (rows, ids) in enumerate(parts)}
    good = all(
        all(0 <= row < 6 for row in rows) and sorted({*ids}) == ids and all(i >= 0 for i in ids)
        for rows, ids in parts
    )
    try:
        FederatedData(samples, shards, data.test)
    except DataError:
        assert not good
    else:
        assert good
