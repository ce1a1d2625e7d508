"""What a stacked form may use: operations whose bits for one row do not depend on the rows beside it.

Sums, products, quotients and square roots round the same way everywhere, and need nothing. Other functions
of single numbers (pow, exp, sigmoid...) go through `pointwise`: vectorised code handles the last few
numbers of a tensor by scalar code that rounds differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

LINE = 64  # bytes: a cache line, and the longest vector (AVX-512)
VECTORS = 4 * LINE  # bytes: ATen's loops take up to four vectors at once


def pointwise(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to tensors of one shape, so that no number falls to a scalar tail."""
    shape, size = tensors[0].shape, tensors[0].numel()
    extra = -size % (VECTORS // tensors[0].element_size())
    flat = [t.contiguous().view(-1) for t in tensors]
    if extra:
        flat = [F.pad(t, (0, extra)) for t in flat]
    result = function(*flat)
    return (result[:size] if extra else result).view(shape)


def row_norms(stacks: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of each row over all tensors ``[rows, ...]`` together, ``[rows]``."""
    parts = torch.stack([torch.linalg.vector_norm(s.flatten(1), dim=1) for s in stacks], dim=1)
    norms: Tensor = torch.linalg.vector_norm(parts, dim=1)
    return norms


def by_row(values: Tensor, like: Tensor) -> Tensor:
    """One number a row, in a shape that goes with ``[rows, ...]``."""
    return values.view(-1, *(1,) * (like.dim() - 1))
