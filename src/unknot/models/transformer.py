"""Layers that PyTorch does not have in a form that can be batched across clients.

`batched_kind` names the layer's rule, so that an engine knows it without importing this module. Numbers may
be in half precision, as those of a frozen language model are: what needs more is computed in full, and what
is trained beside them stays in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.core.base import in_full


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a position sees itself and those before it: ``[..., T, d]``.

    The first of its `parts` gives queries, keys and values in that order, each as `heads` runs of
    ``d // heads``; the second takes what they give.
    """

    batched_kind: ClassVar[str] = "causal_self_attention"
    parts: ClassVar[tuple[str, str]] = ("qkv", "out")
    """The names of its two linear layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        for name, outputs in zip(self.parts, (3 * width, width), strict=True):
            self.add_module(name, nn.Linear(width, outputs))

    def extra_repr(self) -> str:
        return f"heads={self.heads}"

    def forward(self, x: Tensor) -> Tensor:
        qkv, last = (getattr(self, name) for name in self.parts)
        # [..., T, 3, heads, d/heads] to [..., heads, 3, T, d/heads]
        parts = qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(-4, -2)
        q, k, v = parts[..., 0, :, :], parts[..., 1, :, :], parts[..., 2, :, :]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = last(mixed.transpose(-3, -2).flatten(-2))
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


class RMSNorm(nn.Module):
    """A token's numbers over their root mean square, times a weight each."""

    batched_kind: ClassVar[str] = "rms_norm"

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"

    def forward(self, x: Tensor) -> Tensor:
        full = in_full(x)
        scale = torch.rsqrt(full.square().mean(-1, keepdim=True) + self.eps)
        return (full * scale * self.weight.to(full.dtype)).to(x.dtype)


class RotaryAttention(nn.Module):
    """Causal attention with rotated queries and keys; several heads of queries may share one of keys.

    Rotation pairs a head's first half with its second, as Hugging Face has it. `scaling` are Llama 3's four
    numbers for long texts: factor, low and high frequency factor, and the length that it was trained on.
    """

    batched_kind: ClassVar[str] = "rotary_attention"

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        head_width: int,
        rope_base: float,
        scaling: tuple[float, float, float, int] | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = heads, kv_heads, head_width
        self.rope_base, self.scaling = rope_base, scaling
        self.q_proj = nn.Linear(width, heads * head_width, bias=bias)
        self.k_proj = nn.Linear(width, kv_heads * head_width, bias=bias)
        self.v_proj = nn.Linear(width, kv_heads * head_width, bias=bias)
        self.o_proj = nn.Linear(heads * head_width, width, bias=False)

    def extra_repr(self) -> str:
        heads = f"heads={self.heads}, kv_heads={self.kv_heads}, head_width={self.head_width}"
        return f"{heads}, rope_base={self.rope_base}, scaling={self.scaling}"

    def angles(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines ``[length, head_width / 2]``, in single precision."""
        return rotations(length, self.head_width, self.rope_base, self.scaling, str(device))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            (out := applied(part, x)).view(*out.shape[:-1], -1, self.head_width).transpose(-3, -2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        angles = self.angles(x.shape[-2], x.device)
        q, k = rotated(q, *angles), rotated(k, *angles)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return applied(self.o_proj, mixed.transpose(-3, -2).flatten(-2))


class GatedMLP(nn.Module):
    """Llama's: ``down(silu(gate(x)) * up(x))``."""

    batched_kind: ClassVar[str] = "gated_mlp"

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = applied(self.gate_proj, x), applied(self.up_proj, x)
        return applied(self.down_proj, F.silu(gate) * up)


class LastToken(nn.Module):
    """Of a text's numbers ``[..., T, d]`` those of its last token, in full: the last that is not `pad`."""

    batched_kind: ClassVar[str] = "last_token"

    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    def extra_repr(self) -> str:
        return f"pad={self.pad}"

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[-1], device=tokens.device)
        last = torch.where(tokens != self.pad, places, 0).amax(-1)
        where = last[..., None, None].expand(*last.shape, 1, x.shape[-1])
        return in_full(x.gather(-2, where).squeeze(-2))


class AnswerTokens(nn.Module):
    """How likely a language model finds each of a few tokens to be next: ``[..., d]`` to ``[..., answers]``.

    Its weight is that of the model's `head`, which it has in common with it.
    """

    batched_kind: ClassVar[str] = "answer_tokens"

    def __init__(self, head: nn.Linear, tokens: Sequence[int]) -> None:
        super().__init__()
        self.weight = head.weight
        self.tokens = tuple(tokens)

    def extra_repr(self) -> str:
        return f"tokens={self.tokens}"

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight[list(self.tokens)].to(x.dtype).T


class InFull(nn.Module):
    """Numbers in half precision in single precision; others as they are."""

    batched_kind: ClassVar[str] = "in_full"

    def forward(self, x: Tensor) -> Tensor:
        return in_full(x)


def applied(layer: nn.Module, x: Tensor) -> Tensor:
    """A linear layer, whose weights may be trained in full on numbers in half precision."""
    if type(layer) is nn.Linear and layer.weight.dtype != x.dtype:
        bias = None if layer.bias is None else layer.bias.to(x.dtype)
        return F.linear(x, layer.weight.to(x.dtype), bias)
    out: Tensor = layer(x)
    return out


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Each position ``[..., T, d]`` turned by its angles, which begin with the first half of d."""
    full = in_full(x)
    cosines, sines = cosines.to(full.dtype), sines.to(full.dtype)
    first, second = full.chunk(2, -1)
    turned = torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)
    return turned.to(x.dtype)


@cache  # for good: steps that were captured on a GPU read them where they are
def rotations(
    length: int, width: int, base: float, scaling: tuple[float, float, float, int] | None, device: str
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles by which positions are turned."""
    with torch.inference_mode(False):  # who asks first may be there; who asks next may want to train
        return _rotations(length, width, base, scaling, device)


def _rotations(
    length: int, width: int, base: float, scaling: tuple[float, float, float, int] | None, device: str
) -> tuple[Tensor, Tensor]:
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if scaling is not None:
        factor, low, high, trained = scaling
        waves = 2 * math.pi / rates
        blend = ((trained / waves - low) / (high - low)).clamp(0, 1)
        rates = (1 - blend) * rates / factor + blend * rates
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return angles.cos().float().to(device), angles.sin().float().to(device)
