import gc
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unknot.core import cipher
from unknot.core.errors import StoreFullError
from unknot.core.store import MIB, Shelf


def vector(value: float, length: int = 256) -> torch.Tensor:
    return torch.full((length,), float(value))  # 1 KiB


def on_disk(shelf: Shelf) -> bytes:
    shelf._file.seek(0)
    return shelf._file.read()


def there(shelf: Shelf, name: object) -> bytes:
    """What the file has in the place of a vector."""
    return b"".join(on_disk(shelf)[start : start + size] for start, size in shelf._filed[name].pieces)


@pytest.fixture(params=["aes", "shake"])
def way(request, monkeypatch):
    """Both ciphers: that of the package, and that of a machine without it."""
    if request.param == "aes":
        pytest.importorskip("cryptography")
    monkeypatch.setattr(cipher, "_is_there", lambda: request.param == "aes")


def test_the_newest_stay_in_memory_and_older_ones_go_to_the_file():
    shelf = Shelf(memory=2048, disk=MIB)
    for i in range(5):
        shelf[i] = vector(i)
    assert shelf.memory_bytes == 2048
    assert shelf.disk_bytes == 3072
    assert len(on_disk(shelf)) == 3072
    for i in range(5):
        assert torch.equal(shelf[i], vector(i))


def test_what_is_spilled_is_noise_in_the_file(way):
    shelf = Shelf(memory=0, disk=MIB)
    for i in range(1, 9):
        shelf[i] = vector(i)
    shelf["same"] = vector(1)
    found = on_disk(shelf)
    assert len(found) == 9 * 1024
    assert not any(vector(i).numpy().tobytes()[:16] in found for i in range(1, 9))
    assert there(shelf, "same") != there(shelf, 1)  # no two vectors are under one key
    assert len({found[i : i + 16] for i in range(0, len(found), 16)}) == len(found) // 16


def test_a_deleted_vector_cannot_be_read_though_its_bytes_were_kept(way):
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"], shelf["b"] = vector(1), vector(2)
    filed, kept = shelf._filed["a"], on_disk(shelf)
    assert cipher.apply(filed.key, memoryview(kept)[:1024]) == vector(1).numpy().tobytes()
    del shelf["a"]
    assert not any(filed.key)
    shelf._write(0, kept)  # as a disk that has an older copy of the block
    with pytest.raises(KeyError):
        shelf["a"]
    assert torch.equal(shelf["b"], vector(2))


def test_what_a_disk_refuses_to_overwrite_cannot_be_read_either(monkeypatch):
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"] = vector(1)
    with monkeypatch.context() as patch:
        patch.setattr(shelf, "_write", lambda *_: (_ for _ in ()).throw(OSError("it fails")))
        with pytest.raises(OSError, match="it fails"):
            del shelf["a"]
    with pytest.raises(KeyError):
        shelf["a"]
    del shelf["a"]  # tried again
    assert (shelf.disk_bytes, len(shelf)) == (0, 0)


def test_the_two_ciphers_take_long_vectors_piece_by_piece(way, monkeypatch):
    monkeypatch.setattr(cipher, "_PIECE", 64)
    shelf = Shelf(memory=0, disk=MIB)
    for length in (0, 1, 15, 16, 17, 40):
        shelf[length] = torch.arange(float(length))
        assert torch.equal(shelf[length], torch.arange(float(length)))
    assert len({there(shelf, 40)[i : i + 16] for i in range(0, 160, 16)}) == 10


def test_bits_and_types_survive_the_way_to_disk_and_back(way):
    shelf = Shelf(memory=0, disk=MIB)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        tensor = torch.tensor([0.1, -0.0, float("inf"), 1e-40]).to(dtype)
        shelf[dtype] = tensor
        assert shelf[dtype].dtype == dtype
        assert shelf[dtype].device == tensor.device
        assert torch.equal(shelf[dtype].view(torch.uint8), tensor.view(torch.uint8))
    shelf["nothing"] = torch.empty(0)
    shelf["every other"] = torch.arange(6.0)[::2]
    shelf["more"] = vector(1)
    assert shelf["nothing"].shape == (0,)
    assert shelf["every other"].tolist() == [0, 2, 4]


def test_what_is_read_back_is_the_readers_own():
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"] = vector(1)
    shelf["a"].fill_(7)
    assert torch.equal(shelf["a"], vector(1))


def test_a_deleted_vectors_bytes_are_overwritten_and_its_room_is_used_again():
    shelf = Shelf(memory=0, disk=MIB)
    for i in range(1, 4):
        shelf[i] = vector(i)
    del shelf[2]
    assert shelf.disk_bytes == 2048
    assert on_disk(shelf) == there(shelf, 1) + bytes(1024) + there(shelf, 3)
    shelf[4] = vector(4)
    shelf[3] = vector(5)  # replaced, not kept twice
    assert on_disk(shelf) == b"".join(there(shelf, name) for name in (1, 4, 3))
    assert len(shelf) == 3


def test_vectors_of_any_size_share_one_file_that_is_never_longer_than_what_it_held():
    draw = random.Random(11)
    shelf, twin, most = Shelf(memory=0, disk=MIB), {}, 0
    for step in range(600):
        name = draw.randrange(25)
        if name in twin and draw.random() < 0.4:
            del shelf[name], twin[name]
        else:
            twin[name] = vector(1 + step, draw.choice([0, 1, 3, 64, 200, 333]))
            shelf[name] = twin[name]
        live = sum(v.numel() * 4 for v in twin.values())
        most = max(most, live)
        assert shelf.disk_bytes == live
        assert len(shelf) == len(twin)
    assert all(torch.equal(shelf[name], kept) for name, kept in twin.items())
    assert len(on_disk(shelf)) <= most
    # Every byte that is left in the file is of a vector that is still there.
    left = bytearray(on_disk(shelf))
    for filed in shelf._filed.values():
        for start, size in filed.pieces:
            left[start : start + size] = bytes(size)
    assert not any(left)
    for name in twin:
        del shelf[name]
    assert not any(on_disk(shelf))
    assert len(shelf._free) == 1  # neighbours became one


def test_the_file_goes_with_the_shelf():
    shelf = Shelf(memory=0, disk=MIB)
    shelf["a"] = vector(1)
    file = shelf._file
    del shelf
    gc.collect()
    assert file.closed


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
    assert shelf._file is None


MARKER = b"a planted marker"

CHILD = f"""
import sys, torch
from unknot.core.store import MIB, Shelf
shelf = Shelf(memory=0, disk=MIB)
marked = torch.frombuffer(bytearray({MARKER!r} * 8), dtype=torch.float32)
for i in range(1000):
    shelf[i] = marked.clone()
print("spilt", shelf.disk_bytes, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_nothing_on_disk(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert child.stdout.readline() == b"spilt 128000\n"
        assert not list(tmp_path.iterdir())  # no name, not even while it lives
        if Path(
            "/proc/self/fd"
        ).exists():  # and yet it is there that they lie: what a disk keeps of it is noise
            files = [f for f in Path(f"/proc/{child.pid}/fd").iterdir() if str(tmp_path) in os.readlink(f)]
            found = b"".join(file.read_bytes() for file in files)
            assert len(found) == 128000
            assert MARKER not in found
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == -9
    found = [file for file in tmp_path.rglob("*") if file.is_file() and MARKER in file.read_bytes()]
    assert not found
    assert not list(tmp_path.iterdir())
