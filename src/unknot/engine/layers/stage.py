"""A convolution with what follows it, where that is computed in one go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A convolution, the max pool after it if there is one, and ReLU if there is one."""

    weight: str
    bias: str | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    pool: tuple[tuple[int, int], ...] | None  # kernel, stride, padding, dilation
    relu: bool
