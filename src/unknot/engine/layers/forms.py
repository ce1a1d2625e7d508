"""The two forms in which a stack's activations travel.

A plain tensor is ``[rows, batch, ...]``. In an `Image` the rows' channels lie side by side instead, so
that one grouped convolution serves all rows. A rule takes the stacked parameters and its inputs in
either form; it treats every row as the layer would treat it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Image:
    """Activations ``[batch, rows * channels, height, width]``, channels last in memory."""

    data: Tensor
    rows: int

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As one row sees it."""
        batch, channels, height, width = self.data.shape
        return batch, channels // self.rows, height, width


Value = Any  # a Tensor, an Image, or a plain Python value such as a size
Parameters = Mapping[str, Tensor]
Rule = Callable[..., Value]  # (parameters, *inputs, **options) -> value


@dataclass(frozen=True)
class Layer:
    """A rule, what kind it is of, and the order of axes in which it wants its parameters stored."""

    kind: str
    rule: Rule
    stored: Mapping[str, tuple[int, ...]]


class Unsupported(Exception):
    """A layer or function that there is no rule for; says which."""


def to_rows(value: Value) -> Value:
    return _ToRows.apply(value.data, value.rows) if isinstance(value, Image) else value  # type: ignore[no-untyped-call]


def to_image(value: Value) -> Image:
    if isinstance(value, Image):
        return value
    if value.dim() != 5:
        raise Unsupported(f"images (channels, height, width) are needed, not {tuple(value.shape[2:])}")
    return Image(_ToImage.apply(value), len(value))  # type: ignore[no-untyped-call]


def laid_apart(data: Tensor, rows: int) -> Tensor:
    """An image's data as ``[rows, batch, channels, height, width]``, in memory of its own."""
    batch, channels, height, width = data.shape
    return data.view(batch, rows, channels // rows, height, width).transpose(0, 1).contiguous()


def side_by_side(stack: Tensor) -> Tensor:
    """The inverse of `laid_apart`."""
    rows, batch, channels, height, width = stack.shape
    last = stack.permute(1, 3, 4, 0, 2).contiguous().view(batch, height, width, rows * channels)
    return last.permute(0, 3, 1, 2)


class _ToRows(torch.autograd.Function):
    """Image to rows, each in memory of its own: a sum over one must not run across the others.

    Backward is `_ToImage` and the other way round, so that gradients of any order are laid out alike.
    """

    @staticmethod
    def forward(ctx: Any, data: Tensor, rows: int) -> Tensor:
        return laid_apart(data, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _ToImage.apply(gradient), None  # type: ignore[no-untyped-call]


class _ToImage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stack: Tensor) -> Tensor:
        ctx.rows = len(stack)
        return side_by_side(stack)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        rows: Tensor = _ToRows.apply(gradient, ctx.rows)  # type: ignore[no-untyped-call]
        return rows


def shape_of(value: Value) -> tuple[int, ...]:
    return value.shape if isinstance(value, Image) else tuple(value.shape[1:])
