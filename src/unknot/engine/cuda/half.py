"""Kernels for numbers in half precision: compiled at run time for the sizes at hand, and kept."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from threading import local
from typing import Any

import torch
from torch import Tensor

from unknot.engine.cuda.kernels import compile_text, ready

HALF = torch.bfloat16
_here = local()
_HERE = Path(__file__).parent


def taken(x: Tensor) -> bool:
    """Whether numbers are such that these kernels are for them, on a GPU that can multiply them."""
    return x.dtype == HALF and ready(x) and _multiplies(x.device.index)


@cache
def _multiplies(device: int) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


@cache
def _kernel(file: str, name: str, device: int, **sizes: int) -> Any:
    constants = "".join(f"constexpr int {key.upper()} = {value};\n" for key, value in sizes.items())
    text = "\n".join((_HERE / part).read_text() for part in ("bfloat16.cuh", file))
    return compile_text(f"#define {name.upper()}\n{constants}{text}", name)


def launch(file: str, name: str, blocks: int, threads: int, given: list[Any], **sizes: int) -> None:
    """Launch a kernel of a file on the current stream, where the first of the tensors `given` is.

    Numbers that are not whole are handed on by their bits: versions of PyTorch differ in what they make of
    them.
    """
    if not blocks:
        return
    device = given[0].device.index
    _settle(device)
    plain = [struct.unpack("i", struct.pack("f", x))[0] if isinstance(x, float) else x for x in given]
    _kernel(file, name, device, **sizes)(grid=(blocks, 1, 1), block=(threads, 1, 1), args=plain)


def _settle(device: int) -> None:
    """Make the GPU known to this thread: autograd's own begins without it."""
    known: set[int] = _here.__dict__.setdefault("known", set())
    if device not in known:
        torch.cuda.synchronize(device)
        known.add(device)
