"""GGUF files: numbers as they were stored, and files that are broken."""

import struct

import numpy as np
import pytest
import torch

import gguf_files
from unknot.core.errors import ConfigError, DataError
from unknot.text.gguf import Gguf


def half(raw):
    return np.float32(np.frombuffer(raw, "<f2")[0])


def slow_q4_1(block):
    d, m, q = half(block[:2]), half(block[2:4]), block[4:]
    return [d * np.float32(q[i % 16] >> (4 if i >= 16 else 0) & 15) + m for i in range(32)]


def slow_q8_0(block):
    d = half(block[:2])
    return [d * np.float32(q) for q in struct.unpack("32b", block[2:])]


@pytest.mark.parametrize(("kind", "size", "slow"), [("Q4_1", 20, slow_q4_1), ("Q8_0", 34, slow_q8_0)])
def test_quantised_numbers_are_those_of_a_slow_twin(kind, size, slow, tmp_path):
    """To the bit: models that are on record were read so."""
    draws = np.random.default_rng(size)
    blocks = draws.integers(0, 256, (6, size)).astype(np.uint8)
    blocks[:, :4] = draws.normal(size=(6, 2)).astype("<f2").view(np.uint8)
    path = gguf_files.write(tmp_path / "a.gguf", {}, {"w": (blocks.reshape(3, -1), kind)})
    wanted = np.array([slow(block.tobytes()) for block in blocks], np.float32).reshape(3, 64)
    got = Gguf.open(path).tensor("w")
    assert got.dtype == torch.float32
    assert np.array_equal(got.numpy(), wanted)


def test_tensors_come_back_in_pytorchs_shape_and_may_be_written_to(tmp_path):
    numbers = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    brains = torch.from_numpy(numbers).bfloat16()
    tensors = {
        "single": numbers,
        "half": numbers.astype(np.float16),
        "brain": (brains.view(torch.int16).numpy().view(np.uint8), "BF16"),
    }
    file = Gguf.open(gguf_files.write(tmp_path / "a.gguf", {"n": -7, "words": ["Ġt", "he"]}, tensors))
    assert tuple(file.tensors) == ("single", "half", "brain")
    assert (file.metadata["n"], file.metadata["words"]) == (-7, ["Ġt", "he"])
    assert file.shape("brain") == (2, 3, 4)
    assert np.array_equal(file.tensor("half").numpy(), numbers.astype(np.float16).astype(np.float32))
    assert torch.equal(file.tensor("brain"), brains.float())
    file.tensor("single").zero_()
    assert np.array_equal(file.tensor("single").numpy(), numbers)


def test_a_file_that_was_written_again_is_read_again(tmp_path):
    for size in (2, 3):
        path = gguf_files.write(tmp_path / "a.gguf", {}, {"w": np.ones(size, np.float32)})
        assert Gguf.open(path).shape("w") == (size,)


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = gguf_files.write(tmp_path / "a.gguf", {"words": ["a", "b"]}, {"w": np.ones((2, 8), np.float32)})
    raw = whole.read_bytes()
    for length in range(len(raw)):
        whole.write_bytes(raw[:length])
        with pytest.raises(DataError, match=str(whole)):
            Gguf.open(whole)


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = gguf_files.write(tmp_path / "a.gguf", {}, {"whole": np.ones(2, np.int8)})
    with pytest.raises(DataError, match="'whole' is stored as I8"):
        Gguf.open(path).tensor("whole")
    for wrong in (tmp_path, tmp_path / "nowhere.gguf"):
        with pytest.raises(DataError, match=f"cannot read {wrong}"):
            Gguf.open(wrong)
    path.write_bytes(path.read_bytes() + b" ")
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[text\]'"):
        Gguf.open(path)
