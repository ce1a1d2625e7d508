"""Whether two results are the same: bit for bit, or but for rounding."""

from __future__ import annotations

import torch
from torch import Tensor

CLOSE = 1e-4  # of the largest number: far above rounding, far below what company does to a sample


def same_bits(a: Tensor, b: Tensor) -> bool:
    """As whole numbers: NaN is no number, but has bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size(), torch.uint8)
    parts = [tensor.detach().contiguous().view(-1).view(words) for tensor in (a, b)]
    return torch.equal(*parts)


def close(a: Tensor, b: Tensor, size: float = 0.0) -> bool:
    """Whether two tensors are the same but for rounding; what is no number counts as itself.

    `size` is that of the numbers that they were computed from, where that is what rounding goes by.
    """
    if a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    largest = torch.cat([a.flatten(), b.flatten()]).nan_to_num(0.0, 0.0, 0.0).abs().max() if a.numel() else 0
    return bool(torch.allclose(a, b, rtol=0.0, atol=CLOSE * max(float(largest), size), equal_nan=True))
