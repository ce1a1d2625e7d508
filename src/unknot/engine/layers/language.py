"""Layers of language models, each run on a whole stack at once (see `unknot.models.transformer`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unknot.core.base import in_full
from unknot.engine.bits import stable
from unknot.engine.cuda import attention, half, language
from unknot.engine.layers.forms import Layer, Parameters, to_rows
from unknot.engine.layers.rules import Builder, attended, linears_within


def _per_row(weight: Tensor, x: Tensor) -> Tensor:
    """A stack of vectors ``[rows, d]``, to be multiplied with ``[rows, ..., d]``."""
    return weight.view(len(weight), *(1,) * (x.dim() - 2), -1)


def _rms_norm(module: Any, names: Mapping[str, str], twice: bool) -> Layer:
    weight, eps = names["weight"], float(module.eps)
    frozen = not module.weight.requires_grad

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        each = parameters[weight]
        fitting = x.shape[-1] % 8 == 0 and x.shape[-1] <= language.LONGEST and each.dtype == x.dtype
        if frozen and not twice and fitting and half.taken(x):
            return language.RMSNorm.apply(x, each[0], eps)  # type: ignore[no-untyped-call, no-any-return]
        full = in_full(x)
        mean = full.contiguous().square().mean(-1, keepdim=True) + eps
        scale = stable.pointwise(torch.rsqrt, mean)
        return (full * scale * _per_row(each, x).to(full.dtype)).to(x.dtype)

    return Layer("rms_norm", rule, {})


def _rotary_attention(module: Any, names: Mapping[str, str], twice: bool) -> Layer:
    inner = linears_within(module, ("q_proj", "k_proj", "v_proj"), names, twice)
    out = linears_within(module, ("o_proj",), names, twice)
    heads, fewer, width = int(module.heads), int(module.kv_heads), int(module.head_width)
    group = heads // fewer

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        x = to_rows(x)
        length = x.shape[-2]
        cosines, sines = module.angles(length, x.device)
        given = inner.rule(parameters, x)
        q, k, v = (part.view(-1, length, part.shape[-1] // width, width) for part in given)
        if not twice and half.taken(x) and attention.fits(width):
            mixed = attention.attended(q, k, v, cosines, sines)
        else:
            q, k = (_turned(part.transpose(1, 2), cosines, sines) for part in (q, k))
            k, v = (
                part.repeat_interleave(group, 1).reshape(-1, length, width) for part in (k, v.transpose(1, 2))
            )
            mixed = attended(q.reshape(-1, length, width), k, v)
            mixed = mixed.view(-1, heads, length, width).transpose(1, 2)
        merged = mixed.reshape(*x.shape[:-1], heads * width)
        (given,) = out.rule(parameters, merged)
        return given  # type: ignore[no-any-return]

    return Layer("rotary_attention", rule, {**inner.stored, **out.stored})


def _turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    full = in_full(x)
    cosines, sines = cosines.to(full.dtype), sines.to(full.dtype)
    first, second = full.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(x.dtype)


def _gated_mlp(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    inner = linears_within(module, ("gate_proj", "up_proj"), names, twice)
    out = linears_within(module, ("down_proj",), names, twice)

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        gate, up = inner.rule(parameters, to_rows(x))
        if not twice and half.taken(gate) and gate.shape[-1] % 8 == 0:
            between = language.Gate.apply(gate, up)  # type: ignore[no-untyped-call]
        else:
            between = stable.pointwise(F.silu, gate) * up
        (given,) = out.rule(parameters, between)
        return given  # type: ignore[no-any-return]

    return Layer("gated_mlp", rule, {**inner.stored, **out.stored})


def _last_token(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    def rule(parameters: Parameters, x: Tensor, tokens: Tensor) -> Tensor:
        out: Tensor = type(module).forward(module, x, tokens)  # it takes a stack as it is
        return out

    return Layer("last_token", rule, {})


def _answer_tokens(module: Any, names: Mapping[str, str], twice: bool) -> Layer:
    weight, tokens = names["weight"], torch.tensor(module.tokens)
    places: dict[torch.device, Tensor] = {}

    def rule(parameters: Parameters, x: Tensor) -> Tensor:
        table = parameters[weight]
        if table.device not in places:  # moved once: what is captured must not wait for a copy
            places[table.device] = tokens.to(table.device)
        answers = table.index_select(1, places[table.device]).to(x.dtype)
        return stable.bmm(x, answers.transpose(1, 2))

    return Layer("answer_tokens", rule, {})


def _full(module: nn.Module, names: Mapping[str, str], twice: bool) -> Layer:
    return Layer("in_full", lambda parameters, x: in_full(to_rows(x)), {})


KINDS: dict[str, Builder] = {
    "rms_norm": _rms_norm,
    "rotary_attention": _rotary_attention,
    "gated_mlp": _gated_mlp,
    "last_token": _last_token,
    "answer_tokens": _answer_tokens,
    "in_full": _full,
}
