"""What a frozen language model in half precision computes for a stack of adapters, on a GPU, for autograd.

Between products each token is computed for itself, by kernels of our own (`language.cu`) with one order of
sums: its bits do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from unknot.engine.cuda.half import HALF, launch
from unknot.engine.cuda.kernels import parts

LONGEST = 8192  # numbers a token that a warp keeps in registers
_FILE, _THREADS = "language.cu", 256


class RMSNorm(torch.autograd.Function):
    """``RMSNorm.apply(x, weight, eps)`` for a weight that is frozen."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        tokens, width = x.numel() // x.shape[-1], x.shape[-1]
        out, scales = torch.empty_like(x), x.new_empty(tokens, dtype=torch.float32)
        given = [x, weight, out, scales, tokens, eps]
        launch(_FILE, "rms_forward", parts(tokens * 32, _THREADS), _THREADS, given, width=width)
        ctx.save_for_backward(x, weight, scales)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, None, None]:
        x, weight, scales = ctx.saved_tensors
        out, tokens = torch.empty_like(x), len(scales)
        given = [error.contiguous(), x, weight, scales, out, tokens]
        launch(_FILE, "rms_backward", parts(tokens * 32, _THREADS), _THREADS, given, width=x.shape[-1])
        return out, None, None


class Gate(torch.autograd.Function):
    """``Gate.apply(gate, up)`` is ``silu(gate) * up``."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        out, runs = torch.empty_like(gate), gate.numel() // 8
        launch(_FILE, "gate_forward", parts(runs, _THREADS), _THREADS, [gate, up, out, runs])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        first, second, runs = torch.empty_like(gate), torch.empty_like(up), gate.numel() // 8
        given = [error.contiguous(), gate, up, first, second, runs]
        launch(_FILE, "gate_backward", parts(runs, _THREADS), _THREADS, given)
        return first, second


@dataclass(frozen=True, eq=False)
class Adapter:
    """A stack of adapters in full precision: ``[rows, in, rank]`` and ``[rows, rank, out]``."""

    first: Tensor
    second: Tensor
    scaling: float


@dataclass(frozen=True, eq=False)
class Projection:
    """A frozen linear layer in half precision, ``[out, in]``, one for all rows; and adapters beside it."""

    weight: Tensor
    bias: Tensor | None = None
    adapter: Adapter | None = None


def projected(x: Tensor, layers: Sequence[Projection]) -> tuple[Tensor, ...]:
    """What several linear layers give for the same ``[rows, ..., in]``.

    Products are of numbers in half precision, by cuBLAS; gradients of adapters are kept in full.
    """
    trained = [part for layer in layers if (a := layer.adapter) for part in (a.first, a.second)]
    flat = x.reshape(len(x), -1, x.shape[-1])
    outs = _Projected.apply(flat, layers, *trained)  # type: ignore[no-untyped-call]
    return tuple(out.view(*x.shape[:-1], -1) for out in outs)


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Projection], *trained: Tensor) -> tuple[Tensor, ...]:
        saved, outs = [x], []
        for layer in layers:
            out = F.linear(x, layer.weight, layer.bias)
            if layer.adapter is not None:
                first = layer.adapter.first.to(HALF)
                second = (layer.adapter.second * layer.adapter.scaling).to(HALF)
                between = torch.bmm(x, first)
                out.baddbmm_(between, second)
                saved += [first, second, between]
            outs.append(out)
        ctx.save_for_backward(*saved)
        ctx.layers = layers
        return tuple(outs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *errors: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        further = ctx.needs_input_grad[0]
        below: Tensor | None = None
        gradients: list[Tensor] = []
        for layer, error in zip(ctx.layers, errors, strict=True):
            if further:
                flat = error.reshape(-1, error.shape[-1])
                if below is None:
                    below = (flat @ layer.weight).view_as(x)
                else:
                    below.view(-1, x.shape[-1]).addmm_(flat, layer.weight)
            if layer.adapter is not None:
                first, second, between, *saved = saved
                pulled = torch.bmm(error, second.transpose(1, 2))
                if below is not None:
                    below.baddbmm_(pulled, first.transpose(1, 2))
                of_second = torch.bmm(between.transpose(1, 2), error, out_dtype=torch.float32)
                gradients += [
                    torch.bmm(x.transpose(1, 2), pulled, out_dtype=torch.float32),
                    of_second.mul_(layer.adapter.scaling),
                ]
        return below, None, *gradients
