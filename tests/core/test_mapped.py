"""What lies in a file stays there: it is read in place, and neither copied into memory nor written to."""

import gc
import os

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unknot
from unknot.core import mapped, samples
from unknot.core.errors import DataError, ErasedDataError

ROWS, WIDE = 60, 8


@pytest.fixture
def file(tmp_path):
    """60 rows; every number of row i is i."""
    path = tmp_path / "inputs.npy"
    np.save(path, np.repeat(np.arange(ROWS, dtype=np.float32)[:, None], WIDE, 1))
    return path


def labels(n):
    return np.arange(n) % 3


def towns(x, **options):
    parts = {"Graz": x[:20], "Linz": x[20:40:2], "Wien": x[40:55]}
    return unknot.clients({name: (part, labels(len(part))) for name, part in parts.items()}, **options)


def held(data, client):
    return data.train.take(torch.from_numpy(data[client].rows))[0][:, 0].tolist()


def test_inputs_that_lie_in_a_file_stay_on_disk(file, tmp_path):
    x = np.load(file, mmap_mode="r")
    data = towns(x, test=(x[55:], labels(5)))
    assert mapped.is_mapped(data.train.x)
    assert mapped.is_mapped(data.test.x)
    assert held(data, "Graz") == list(range(20))
    assert held(data, "Linz") == list(range(20, 40, 2))
    assert [data.train.y[r].item() for r in data["Linz"].rows] == labels(10).tolist()
    assert list(tmp_path.iterdir()) == [file]
    assert not os.path.exists(data.train.x.untyped_storage().filename)  # the file has no name any more


def test_an_erasure_leaves_the_file_as_it_is_and_what_is_held_without_the_rows(file):
    before = file.read_bytes()
    data = towns(np.load(file, mmap_mode="r"))
    fork = data.fork()
    data.erase("Graz")
    data.erase("Wien", [0])
    assert not data.train.x[:20].any()
    assert not data.train.x[30].any()
    assert mapped.is_mapped(data.train.x)
    assert held(data, "Linz") == list(range(20, 40, 2))
    assert held(fork, "Graz") == list(range(20))
    with pytest.raises(ErasedDataError):
        data["Graz"]
    del fork
    gc.collect()
    assert file.read_bytes() == before


def test_files_of_several_clients_are_put_together_on_disk(tmp_path):
    parts = {}
    for k, name in enumerate(("Graz", "Linz")):
        np.save(tmp_path / f"{name}.npy", np.full((5, 3), k, dtype=np.uint8))
        parts[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r"), labels(5)
    data = unknot.clients(parts)
    assert data.train.x.dtype == torch.float32
    assert mapped.is_mapped(data.train.x)
    assert held(data, "Linz") == [1.0] * 5


def test_rows_that_two_clients_hold_are_put_together_with_the_labels_of_each(file):
    x = np.load(file, mmap_mode="r")
    data = unknot.clients([(x[:4], [0, 0, 0, 0]), (x[2:6], [1, 1, 1, 1])])
    assert data.train.y.tolist() == [0] * 4 + [1] * 4
    assert mapped.is_mapped(data.train.x)


def test_another_precision_stays_on_disk(file):
    data = towns(np.load(file, mmap_mode="r")).cast(torch.float64)
    assert data.train.x.dtype == torch.float64
    assert mapped.is_mapped(data.train.x)
    assert held(data, "Wien") == list(range(40, 55))


def test_what_is_computed_from_a_file_lies_in_memory(file):
    assert not mapped.is_mapped(towns(np.load(file, mmap_mode="r") + 1).train.x)


def test_training_on_a_file_is_training_on_what_is_in_it(file):
    x = np.load(file, mmap_mode="r") / np.float32(ROWS)
    np.save(file, x)
    recipe = unknot.Recipe(unknot.SGD(0.1), batch_size=4)
    models = [
        unknot.simulate("mlp", towns(given), recipe=recipe)
        .run(3, requests=unknot.erase("Graz", round=1))
        .model
        for given in (np.load(file, mmap_mode="r"), np.load(file))
    ]
    assert models[0].equal(models[1])


def test_no_room_on_disk_is_said_before_anything_is_written(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(DataError, match=r"48 bytes in .*TMPDIR"):
        mapped.stored([torch.zeros(4, 3)], torch.float32)


class Memory(TorchDispatchMode):
    """Sees the largest tensor that any operation returns and that lies in no file."""

    largest = 0
    given = ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and not mapped.is_mapped(out) and out.data_ptr() not in self.given:
            self.largest = max(self.largest, out.untyped_storage().nbytes())
        return out


def test_neither_checking_nor_erasing_takes_memory_of_the_files_size(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "_CHUNK", 1000)
    np.save(tmp_path / "x.npy", np.ones((2000, 50), dtype=np.float32))  # 400 kB
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    Memory.given = [x[start:].__array_interface__["data"][0] for start in (0, 1000)]
    with Memory() as made:
        data = unknot.clients([(x[:1000], labels(1000)), (x[1000:], labels(1000))])
        data.erase(0)
        data.cast(torch.float64)
    assert not data.train.x[:1000].any()
    assert 0 < made.largest <= 2000 * 8  # the labels
