import gc

import pytest
import torch

from unknot.core.errors import StoreFullError
from unknot.core.store import MIB, Shelf


def vector(value: float, length: int = 256) -> torch.Tensor:
    return torch.full((length,), float(value))  # 1 KiB


def test_the_newest_stay_in_memory_and_older_ones_go_to_files():
    shelf = Shelf(memory=2048, disk=MIB)
    for i in range(5):
        shelf[i] = vector(i)
    assert shelf.memory_bytes == 2048
    assert shelf.disk_bytes == 3072
    assert sorted(path.stat().st_size for path in shelf._folder.iterdir()) == [1024] * 3
    for i in range(5):
        assert torch.equal(shelf[i], vector(i))


def test_bits_and_types_survive_the_way_to_disk_and_back():
    shelf = Shelf(memory=0, disk=MIB)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        tensor = torch.tensor([0.1, -0.0, float("inf"), 1e-40]).to(dtype)
        shelf[dtype] = tensor
        assert shelf[dtype].dtype == dtype
        assert torch.equal(shelf[dtype].view(torch.uint8), tensor.view(torch.uint8))


def test_a_deleted_vector_leaves_no_file():
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"] = vector(1)
    del shelf["a"]
    assert shelf.nbytes == 0
    assert not list(shelf._folder.iterdir())
    shelf["b"] = vector(1)
    shelf["b"] = vector(2)  # replaced, not kept twice
    assert len(list(shelf._folder.iterdir())) == len(shelf) == 1
    assert float(shelf["b"][0]) == 2


def test_the_files_go_with_the_shelf():
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"] = vector(1)
    folder = shelf._folder
    del shelf
    gc.collect()
    assert not folder.exists()


def test_more_than_was_allowed_is_refused():
    shelf = Shelf(memory=1024, disk=1024)
    shelf[0], shelf[1] = vector(0), vector(1)
    with pytest.raises(StoreFullError, match="history is full"):
        shelf[2] = vector(2)


def test_without_a_limit_everything_stays_in_memory():
    shelf = Shelf()
    for i in range(10):
        shelf[i] = vector(i)
    assert (shelf.memory_bytes, shelf.disk_bytes) == (10240, 0)
