"""Tensors as bytes, with their types by safetensors' names; and sets of clients as short text."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from unknot.core.digests import DTYPES
from unknot.core.errors import StoreError

_DIMENSIONS = 64
_HIGHEST = 1 << 24  # no client has a number as high as this
_BITS = "="  # how a set in bits begins


def form(dtype: object, shape: object, size: int) -> tuple[str, tuple[int, ...]]:
    """A type and a shape that a file gives for so many bytes; `ValueError` where they do not fit."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError("an unknown type of numbers")
    if not isinstance(shape, list) or len(shape) > _DIMENSIONS:
        raise ValueError("a shape that is none")
    if not all(type(side) is int and 0 <= side < 2**48 for side in shape):
        raise ValueError("a shape that is none")
    if math.prod(shape) * DTYPES[dtype].itemsize != size:
        raise ValueError("a shape of another size")
    return dtype, tuple(shape)


def tensor_of(dtype: str, shape: tuple[int, ...], content: bytes) -> Tensor:
    """The tensor of these bytes, in memory of its own; `ValueError` for a shape that torch cannot have."""
    if not content:
        try:
            return torch.empty(shape, dtype=DTYPES[dtype])
        except (RuntimeError, OverflowError) as error:
            raise ValueError("a shape that is too large") from error
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(DTYPES[dtype]).reshape(shape)


def pack_form(dtype: str, shape: Sequence[int]) -> bytes:
    """A type and a shape, to stand before a tensor's bytes."""
    told = json.dumps([dtype, list(shape)]).encode()
    return len(told).to_bytes(4, "little") + told


def unpack_form(content: bytes) -> tuple[str, tuple[int, ...], bytes]:
    """The type, the shape and the bytes of what begins with `pack_form`; `ValueError` where it does not."""
    size = int.from_bytes(content[:4], "little")
    if not 0 < size <= min(4096, len(content) - 4):
        raise ValueError("no type and shape")
    told, rest = json.loads(content[4 : 4 + size]), content[4 + size :]
    if not isinstance(told, list) or len(told) != 2:
        raise ValueError("no type and shape")
    return *form(told[0], told[1], len(rest)), rest


def clients_text(clients: Iterable[int]) -> str:
    """A set of clients as text: ranges, or bits where those are shorter."""
    numbers = sorted(set(clients))
    if not numbers:
        return ""
    if not 0 <= numbers[0] <= numbers[-1] < _HIGHEST:
        raise StoreError(f"{numbers[0] if numbers[0] < 0 else numbers[-1]} is no client's number")
    array = np.array(numbers)
    breaks = np.flatnonzero(np.diff(array) != 1) + 1
    starts, ends = array[np.r_[0, breaks]].tolist(), array[np.r_[breaks - 1, len(array) - 1]].tolist()
    ranges = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
    if len(ranges) <= numbers[-1] // 6 + 5:
        return ranges
    bits = np.zeros(numbers[-1] + 1, dtype=bool)
    bits[array] = True
    return _BITS + base64.b64encode(np.packbits(bits, bitorder="little").tobytes()).decode()
