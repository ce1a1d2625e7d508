"""What kernels for stacks of models have in common: whether there can be any, compiling, sharing out work."""

from __future__ import annotations

import math
from functools import cache
from threading import Lock
from typing import Any

import torch

MEMORY = 48 * 1024  # bytes of shared memory that a block has without asking for more
TYPES = {torch.float32: ("float", 4), torch.float64: ("double", 8)}


@cache
def missing() -> str | None:
    """Why there are no kernels here, on this machine with this PyTorch; None if there are."""
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return "no NVIDIA GPU is to be seen"
    if getattr(torch.cuda, "_compile_kernel", None) is None:
        return f"PyTorch {torch.__version__} cannot compile kernels at run time"
    try:
        compile_text('extern "C" __global__ void nothing() {}', "nothing")
    except (OSError, RuntimeError, AttributeError) as error:
        return f"PyTorch cannot compile kernels here: {error}"
    return None


def ready(x: torch.Tensor) -> bool:
    """Whether kernels of our own are there for such a tensor, and products are not to be rounded."""
    return x.is_cuda and not torch.is_autocast_enabled("cuda") and missing() is None


def up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def parts(n: int, unit: int) -> int:
    return -(-n // unit)


def shares(n: int, most: int) -> list[int]:
    """Sizes of equal parts of `n`, each at most `most`, largest first."""
    return sorted({parts(n, k) for k in range(1, n + 1) if parts(n, k) <= most}, reverse=True)


def cycles(issued: float, loaded: float) -> float:
    """Of a warp that issues so many instructions, while four share the port to shared memory so long."""
    return max(issued, loaded) + min(issued, loaded) / 4


def cost(blocks: int, threads: int, work: float, memory: int, registers: int) -> float:
    """Cycles of a row, when rows are many and when they are few, for blocks whose warps take `work` cycles.

    Many rows fill a multiprocessor (four schedulers, 64 Ki registers, 227 KB of shared memory), as far as its
    blocks fit together; few (100) leave some of 132 multiprocessors idle.
    """
    at_once = min(64 * 1024 // (threads * registers), 224 * 1024 // (memory + 1024), 2048 // threads)
    gaps = math.sqrt(max(1.0, 14 / (max(at_once, 1) * threads / 32)))
    many = blocks * threads / 128 * work * gaps
    few = parts(parts(100 * blocks, 132) * threads, 128) * work * 1.32
    return many + few


_compiling = Lock()


def compile_text(text: str, name: str) -> Any:
    """Compile for the current device. No toolkit need be there: the text includes nothing."""
    from torch.utils import cpp_extension

    with _compiling:
        home = cpp_extension.CUDA_HOME
        cpp_extension.CUDA_HOME = home or "/usr"  # PyTorch asks for it, and leaves this one out
        try:
            return torch.cuda._compile_kernel(text, name)
        finally:
            cpp_extension.CUDA_HOME = home
