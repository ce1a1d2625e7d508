"""The Hessian's diagonal, for optimisers that want it: Hutchinson's estimate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Kernel = tuple[int, int] | None
"""The axes of a stack on which a convolution's kernel lies; None for what is no convolution."""


def diagonals(products: Sequence[Tensor], signs: Sequence[Tensor], kernels: Sequence[Kernel]) -> list[Tensor]:
    """|v·Hv|, averaged over the kernel axes of convolutions."""
    found = torch._foreach_mul(list(products), list(signs))
    torch._foreach_abs_(found)
    return [d if axes is None else _kernel_mean(d, axes) for d, axes in zip(found, kernels, strict=True)]


def _kernel_mean(diagonal: Tensor, axes: tuple[int, int]) -> Tensor:
    # The kernel goes last first: then a mean runs over one stretch of memory, whatever the rows.
    mean = diagonal.movedim(axes, (-2, -1)).contiguous().mean((-2, -1), keepdim=True)
    return mean.movedim((-2, -1), axes)
