"""Causal attention with rotated queries and keys, in half precision, on a GPU, for autograd.

Short texts have kernels of our own (`attention.cu`), which have all of a text at once; longer ones go by
PyTorch's, whose backward pass is asked to have one order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from unknot.engine.cuda.half import launch
from unknot.engine.cuda.kernels import parts

ROWS, THREADS = 64, 128  # tokens of a text, and numbers of a head, at most; threads of a block
_FILE = "attention.cu"
_one_at_a_time = Lock()


def fits(width: int) -> bool:
    """Whether heads of so many numbers can be taken."""
    return width % 16 == 0 and width <= 256


def attended(q: Tensor, k: Tensor, v: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Attention of ``[texts, length, heads, width]``; heads of keys and values may be fewer."""
    _, length, _, width = q.shape
    if length <= ROWS and width <= ROWS:
        return Short.apply(q, k, v, cosines, sines)  # type: ignore[no-untyped-call, no-any-return]
    turned = [Rotate.apply(part, cosines, sines) for part in (q, k)]  # type: ignore[no-untyped-call]
    mixed: Tensor = Long.apply(*(part.transpose(1, 2) for part in (*turned, v)))  # type: ignore[no-untyped-call]
    return mixed.transpose(1, 2)


class Short(torch.autograd.Function):
    """For texts of at most `ROWS` tokens, with heads of at most as many numbers."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        q, k, v = (part.contiguous() for part in (q, k, v))
        ctx.save_for_backward(q, k, v, cosines, sines)
        out = torch.empty_like(q)
        _short("attend", q, k, [q, k, v, cosines, sines, out])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, cosines, sines = ctx.saved_tensors
        of_q, of_k, of_v = (torch.empty_like(part) for part in (q, k, v))
        given = [error.contiguous(), q, k, v, cosines, sines, of_q, of_k, of_v]
        _short("attend_backward", q, k, given)
        return of_q, of_k, of_v, None, None


def _short(name: str, q: Tensor, k: Tensor, given: list[Any]) -> None:
    texts, length, heads, width = q.shape
    sizes = {"length": length, "width": width, "heads": heads, "fewer": k.shape[2]}
    launch(_FILE, name, texts * k.shape[2], THREADS, [*given, 1 / math.sqrt(width)], **sizes)


class Rotate(torch.autograd.Function):
    """``Rotate.apply(x, cosines, sines)`` for ``[texts, length, heads, width]``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        ctx.save_for_backward(cosines, sines)
        return _turned(x, cosines, sines, 1.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, None, None]:
        cosines, sines = ctx.saved_tensors
        return _turned(error, cosines, sines, -1.0), None, None


def _turned(x: Tensor, cosines: Tensor, sines: Tensor, sign: float) -> Tensor:
    x = x.contiguous()
    _, length, heads, width = x.shape
    out, runs = torch.empty_like(x), x.numel() // 16
    sizes = {"length": length, "heads": heads, "width": width}
    launch("language.cu", "rotate", parts(runs, 256), 256, [x, cosines, sines, out, runs, sign], **sizes)
    return out


class Long(torch.autograd.Function):
    """Causal attention of ``[texts, heads, length, width]``, by PyTorch's flash attention."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, sums, _, _, *longest, seed, offset, _ = torch.ops.aten._scaled_dot_product_flash_attention(
            q, k, v, 0.0, True
        )
        ctx.save_for_backward(q, k, v, out, sums, seed, offset)
        ctx.longest = longest
        return out  # type: ignore[no-any-return]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, sums, seed, offset = ctx.saved_tensors
        with _in_order():
            of_q, of_k, of_v = torch.ops.aten._scaled_dot_product_flash_attention_backward(
                error, q, k, v, out, sums, None, None, *ctx.longest, 0.0, True, seed, offset
            )
        return of_q, of_k, of_v


@contextmanager
def _in_order() -> Iterator[None]:
    """Within: PyTorch's kernels that could add up in any order do so in one.

    It is a setting of the whole process, and each GPU has a thread: one at a time.
    """
    memory: Any = torch.utils.deterministic  # which would else be filled each time
    with _one_at_a_time:
        before, filled = torch.get_deterministic_debug_mode(), memory.fill_uninitialized_memory
        memory.fill_uninitialized_memory = False
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.set_deterministic_debug_mode(before)
            memory.fill_uninitialized_memory = filled
