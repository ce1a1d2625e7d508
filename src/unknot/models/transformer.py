"""Layers that PyTorch does not have in a form that can be batched across clients.

`batched_kind` names the layer's rule, so that an engine knows it without importing this module.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a position sees itself and those before it: ``[..., T, d]``.

    `qkv` gives queries, keys and values in that order, each as `heads` runs of ``d // heads``.
    """

    batched_kind: ClassVar[str] = "causal_self_attention"

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        # [..., T, 3, heads, d/heads] to [..., heads, 3, T, d/heads]
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(-4, -2)
        q, k, v = parts[..., 0, :, :], parts[..., 1, :, :], parts[..., 2, :, :]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(-3, -2).flatten(-2))
        return out


class PositionEmbedding(nn.Module):
    """Adds a learnt vector to each position: ``[..., T, d]``, for T up to `context`."""

    batched_kind: ClassVar[str] = "position_embedding"

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(context, width))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.shape[-2]]
