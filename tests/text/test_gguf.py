"""GGUF files: every way to store numbers against a slow twin, and files that are broken."""

import struct

import numpy as np
import pytest
import torch

import gguf_files
from unknot.core.errors import DataError
from unknot.text.gguf import Gguf


def half(raw):
    return np.float32(np.frombuffer(raw, "<f2")[0])


def slow_q4_0(block):
    d, q = half(block[:2]), block[2:]
    return [d * np.float32((q[i % 16] >> (4 if i >= 16 else 0) & 15) - 8) for i in range(32)]


def slow_q4_1(block):
    d, m, q = half(block[:2]), half(block[2:4]), block[4:]
    return [d * np.float32(q[i % 16] >> (4 if i >= 16 else 0) & 15) + m for i in range(32)]


def slow_q8_0(block):
    d = half(block[:2])
    return [d * np.float32(q) for q in struct.unpack("32b", block[2:])]


def slow_q6_k(block):
    """As ggml's dequantize_row_q6_K has it."""
    d, out = half(block[208:]), [np.float32(0)] * 256
    for part in range(2):
        low, high = block[64 * part :], block[128 + 32 * part :]
        scales = struct.unpack("8b", block[192 + 8 * part : 200 + 8 * part])
        for i in range(32):
            for quarter in range(4):
                bits = low[i + 32 * (quarter % 2)] >> (4 if quarter >= 2 else 0) & 15
                whole = (bits | (high[i] >> 2 * quarter & 3) << 4) - 32
                scale = np.float32(scales[i // 16 + 2 * quarter])
                out[128 * part + 32 * quarter + i] = d * scale * np.float32(whole)
    return out


BLOCKS = {  # kind: (values of a block, bytes, the slow twin, where its numbers in half precision are)
    2: (32, 18, slow_q4_0, (0,)),
    3: (32, 20, slow_q4_1, (0, 2)),
    8: (32, 34, slow_q8_0, (0,)),
    14: (256, 210, slow_q6_k, (208,)),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_quantised_numbers_are_those_of_a_slow_twin(kind, tmp_path):
    values, size, slow, halves = BLOCKS[kind]
    draws = np.random.default_rng(kind)
    blocks = draws.integers(0, 256, (6, size)).astype(np.uint8)
    for place in halves:
        blocks[:, place : place + 2] = draws.normal(size=(6, 1)).astype("<f2").view(np.uint8)
    shape = (3, 2 * values)
    path = gguf_files.write(tmp_path / "a.gguf", {}, {"w": (kind, shape, blocks.tobytes())})
    wanted = np.array([slow(block.tobytes()) for block in blocks], np.float32).reshape(shape)
    got = Gguf.open(path).tensor("w")
    assert got.dtype == torch.float32
    assert np.array_equal(got.numpy(), wanted)


def test_whole_and_half_precision_are_read_as_they_are(tmp_path):
    numbers = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    halves, brains = numbers.astype("<f2"), torch.from_numpy(numbers).bfloat16()
    tensors = {
        "single": numbers,
        "half": (1, (3, 5), halves.tobytes()),
        "brain": (30, (3, 5), brains.view(torch.int16).numpy().tobytes()),
    }
    file = Gguf.open(gguf_files.write(tmp_path / "a.gguf", {}, tensors))
    assert file.names == ("single", "half", "brain")
    assert np.array_equal(file.tensor("single").numpy(), numbers)
    assert np.array_equal(file.tensor("half").numpy(), halves.astype(np.float32))
    assert torch.equal(file.tensor("brain"), brains.float())


def test_shapes_are_in_pytorchs_order_and_any_alignment_holds(tmp_path):
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for alignment in (1, 32, 64):
        path = gguf_files.write(tmp_path / "a.gguf", {}, {"a": numbers, "b": numbers[0]}, alignment)
        file = Gguf.open(path)
        assert file.shape("a") == (2, 3, 4)
        assert np.array_equal(file.tensor("a").numpy(), numbers)
        assert np.array_equal(file.tensor("b").numpy(), numbers[0])


def test_settings_come_back_as_they_were_written(tmp_path):
    settings = {
        "a.name": "Grüße",
        "n": -7,
        "x": 0.5,
        "yes": True,
        "words": ["Ġt", "he"],
        "numbers": [1, 2, 3],
    }
    settings |= {"deep": [[1, 2], [3]], "none": []}
    assert Gguf.open(gguf_files.write(tmp_path / "a.gguf", settings, {})).metadata == settings


def test_a_tensor_is_a_copy_that_may_be_written_to(tmp_path):
    path = gguf_files.write(tmp_path / "a.gguf", {}, {"w": np.ones((2, 2), np.float32)})
    file = Gguf.open(path)
    file.tensor("w").zero_()
    assert file.tensor("w").sum() == 4


def test_every_cut_of_a_file_is_refused_in_words(tmp_path):
    whole = gguf_files.write(tmp_path / "a.gguf", {"words": ["a", "b"]}, {"w": np.ones((2, 8), np.float32)})
    raw = whole.read_bytes()
    for length in range(len(raw)):
        whole.write_bytes(raw[:length])
        with pytest.raises(DataError, match="no GGUF file that can be read"):
            Gguf.open(whole)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"PK\3\4" + bytes(60), "begins with b'PK"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "little-endian"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60), "in the midst of its head"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_files.text("a") + struct.pack("<I", 99), "type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2) + b"\xff\xfe", "not UTF-8"),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 1)
            + gguf_files.text("a")
            + struct.pack("<I", 9)
            + struct.pack("<IQ", 9, 1) * 99,
            "lists in lists",
        ),
    ],
)
def test_what_is_no_gguf_file_is_refused_in_words(raw, said, tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(raw)
    with pytest.raises(DataError, match=said):
        Gguf.open(path)


def test_tensors_that_cannot_be_are_refused(tmp_path):
    path = tmp_path / "a.gguf"
    with pytest.raises(DataError, match="cannot read"):
        Gguf.open(tmp_path / "nowhere.gguf")
    with pytest.raises(DataError, match="cannot read"):
        Gguf.open(tmp_path)
    gguf_files.write(path, {}, {"w": (3, (2, 33), bytes(80))})
    with pytest.raises(DataError, match="rows of 33 in blocks of 32"):
        Gguf.open(path)
    gguf_files.write(path, {}, {"w": (0, (1, 1, 1, 1, 1), bytes(4))})
    with pytest.raises(DataError, match="5 dimensions"):
        Gguf.open(path)
    gguf_files.write(path, {"general.alignment": 0}, {})
    with pytest.raises(DataError, match="alignment is 0"):
        Gguf.open(path)


def test_a_way_to_store_numbers_that_is_not_known_is_named_when_it_is_read(tmp_path):
    tensors = {"w": (12, (1, 256), bytes(144)), "v": (99, (1,), bytes(4)), "u": np.ones(1, np.float32)}
    file = Gguf.open(gguf_files.write(tmp_path / "a.gguf", {}, tensors))
    assert file.tensor("u").tolist() == [1.0]
    with pytest.raises(DataError, match="stored as Q4_K, which is not read here; take a file in one of F32"):
        file.tensor("w")
    with pytest.raises(DataError, match="stored as type 99"):
        file.tensor("v")
    with pytest.raises(DataError, match="no tensor 'ww'"):
        file.tensor("ww")
