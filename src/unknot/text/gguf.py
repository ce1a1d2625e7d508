"""GGUF, the file format of llama.cpp: settings, a tokenizer and tensors of a language model in one file.

What is quantised is stored in blocks of whole numbers with a scale; here it becomes single precision again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import DataError, nearest

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_NUMBERS = ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "", "", "<u8", "<i8", "<f8")
_STRING, _ARRAY = 8, 9
_DEPTH = 4  # of lists in lists


def _half(values: Bytes) -> Floats:
    """The numbers in half precision that these bytes ``[n, 2]`` are: ``[n, 1]``."""
    return np.ascontiguousarray(values).view("<f2").astype(np.float32)


def _nibbles(values: Bytes) -> Floats:
    """The lower halves of the bytes of a row, then the upper ones."""
    return np.concatenate([values & 15, values >> 4], axis=1).astype(np.float32)


def _f32(blocks: Bytes) -> Floats:
    return blocks.view("<f4").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2]) * (_nibbles(blocks[:, 2:]) - np.float32(8))


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2]) * _nibbles(blocks[:, 4:]) + _half(blocks[:, 2:4])


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2]) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q6_k(blocks: Bytes) -> Floats:
    """Two halves of 128 numbers; in each, four low bits of a number here and two high ones there."""
    n = len(blocks)
    low = blocks[:, :128].reshape(n, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & 15
    high = blocks[:, 128:192].reshape(n, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    whole = (low.reshape(n, 16, 16) | high.reshape(n, 16, 16) << 4).astype(np.float32) - np.float32(32)
    scales = _half(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return (scales[:, :, None] * whole).reshape(n, 256)


@dataclass(frozen=True)
class _Kind:
    """How numbers are stored: so many `values` in a block of so many bytes (`size`)."""

    name: str
    values: int = 0
    size: int = 0
    read: Callable[[Bytes], Floats] | None = None


_KINDS = {
    0: _Kind("F32", 1, 4, _f32),
    1: _Kind("F16", 1, 2, _half),
    2: _Kind("Q4_0", 32, 18, _q4_0),
    3: _Kind("Q4_1", 32, 20, _q4_1),
    8: _Kind("Q8_0", 32, 34, _q8_0),
    14: _Kind("Q6_K", 256, 210, _q6_k),
    30: _Kind("BF16", 1, 2, _bf16),
    **{
        number: _Kind(name)
        for number, name in {6: "Q5_0", 7: "Q5_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K"}.items()
    },
}
READ = tuple(kind.name for kind in _KINDS.values() if kind.read)
"""The ways to store numbers that are read here."""


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies."""

    shape: tuple[int, ...]
    kind: int
    first: int


class _Reader:
    """Goes through the head of a file; never beyond its end."""

    def __init__(self, path: Path, memory: memoryview) -> None:
        self.path, self.memory, self.place = path, memory, 0

    def wrong(self, what: str) -> DataError:
        return DataError(f"{self.path} is no GGUF file that can be read: {what}")

    def take(self, size: int) -> memoryview:
        end = self.place + size
        if end > len(self.memory):
            raise self.wrong(f"it ends after {len(self.memory):,} bytes, in the midst of its head")
        taken = self.memory[self.place : end]
        self.place = end
        return taken

    def u32(self) -> int:
        return int(struct.unpack("<I", self.take(4))[0])

    def u64(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def text(self) -> str:
        start = self.place
        try:
            return str(self.take(self.u64()), "utf-8")
        except UnicodeDecodeError:
            raise self.wrong(f"the text at byte {start:,} is not UTF-8") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.several(depth + 1)
        return self.numbers(kind, 1)[0]

    def several(self, depth: int) -> list[Any]:
        kind, many = self.u32(), self.u64()
        if kind not in (_STRING, _ARRAY):
            return self.numbers(kind, many)
        if depth > _DEPTH:
            raise self.wrong(f"lists in lists, deeper than {_DEPTH}")
        found = []
        for _ in range(many):
            found.append(self.value(kind, depth))
        return found

    def numbers(self, kind: int, many: int) -> list[Any]:
        if kind >= len(_NUMBERS):
            raise self.wrong(f"a value of the unknown type {kind} at byte {self.place:,}")
        dtype = np.dtype(_NUMBERS[kind])
        found: list[Any] = np.frombuffer(self.take(many * dtype.itemsize), dtype).tolist()
        return found


class Gguf:
    """A GGUF file, whose tensors are read when they are asked for.

    `metadata`: its settings by name. `names`: of its tensors, in the file's order.
    """

    def __init__(
        self, path: Path, metadata: dict[str, Any], places: dict[str, _Place], memory: Bytes
    ) -> None:
        self.path, self.metadata = path, metadata
        self._places, self._memory = places, memory

    @classmethod
    def open(cls, path: str | Path) -> Gguf:
        """Read the head of the file at `path`; the rest stays where it is."""
        path = Path(path)
        try:
            memory = np.memmap(path, dtype=np.uint8, mode="r")
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        except ValueError:
            raise DataError(f"{path} is no GGUF file that can be read: it is empty") from None
        reader = _Reader(path, memory.data)
        if len(memory) < 4 or bytes(reader.take(4)) != b"GGUF":
            raise reader.wrong(f"it begins with {bytes(memory[:4])!r}, not with b'GGUF'")
        version = reader.u32()
        if version not in (2, 3):
            raise reader.wrong(f"it is of version {version}; those that are read are 2 and 3, little-endian")
        tensors, settings = reader.u64(), reader.u64()
        metadata: dict[str, Any] = {}
        for _ in range(settings):
            name = reader.text()
            metadata[name] = reader.value(reader.u32())
        places = _places(reader, tensors, metadata.get("general.alignment", 32), len(memory))
        return cls(path, metadata, places, memory)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor as PyTorch has it: rows first."""
        return self._place(name).shape

    def tensor(self, name: str) -> Tensor:
        """A tensor in single precision."""
        place = self._place(name)
        kind = _known(self.path, name, place.kind)
        assert kind.read is not None
        blocks = prod(place.shape) // kind.values
        raw = self._memory[place.first : place.first + blocks * kind.size]
        # Blocks that do not begin where their numbers may are copied, a tensor at a time.
        values = kind.read(np.array(raw).reshape(blocks, kind.size))
        return torch.from_numpy(np.ascontiguousarray(values).reshape(place.shape))

    def _place(self, name: str) -> _Place:
        try:
            return self._places[name]
        except KeyError:
            raise DataError(f"{self.path} has no tensor {name!r}.{nearest(name, self._places)}") from None


def _known(path: Path, name: str, number: int) -> _Kind:
    kind = _KINDS.get(number)
    if kind is None or kind.read is None:
        called = kind.name if kind else f"type {number}"
        raise DataError(
            f"{path}: tensor {name!r} is stored as {called}, which is not read here; "
            f"take a file in one of {', '.join(READ)}"
        )
    return kind


def _places(reader: _Reader, many: int, alignment: Any, size: int) -> dict[str, _Place]:
    """Where each tensor lies, all of them within the file."""
    if not isinstance(alignment, int) or alignment < 1:
        raise reader.wrong(f"general.alignment is {alignment!r}")
    places: dict[str, _Place] = {}
    for _ in range(many):
        name, dimensions = reader.text(), reader.u32()
        if dimensions > 4:
            raise reader.wrong(f"tensor {name!r} has {dimensions} dimensions")
        if name in places:
            raise reader.wrong(f"there are two tensors {name!r}")
        shape = tuple(reader.u64() for _ in range(dimensions))[::-1]
        places[name] = _Place(shape, reader.u32(), reader.u64())
    start = -(-reader.place // alignment) * alignment
    for name, place in places.items():
        first = start + place.first
        kind = _KINDS.get(place.kind)
        if kind and kind.read:
            row = place.shape[-1] if place.shape else 1
            if row % kind.values:
                raise reader.wrong(f"tensor {name!r} has rows of {row} in blocks of {kind.values}")
            end = first + prod(place.shape) // kind.values * kind.size
            if end > size:
                raise reader.wrong(f"it ends after {size:,} bytes, and tensor {name!r} at {end:,}")
        elif prod(place.shape) > 8 * size:  # no way to store numbers takes less than a bit for each
            raise reader.wrong(
                f"tensor {name!r} has {prod(place.shape):,} numbers, in a file of {size:,} bytes"
            )
        places[name] = _Place(place.shape, place.kind, first)
    return places
