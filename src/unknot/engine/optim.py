"""Optimiser steps on stacked parameters: each row as `torch.optim` would step it alone.

All rows of a stack start together, so they share the step number and with it the bias corrections.
Every operation is one on single numbers, or a sum within a row: rows never meet. Gradients are only
read: autograd may hand out one tensor for two parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unknot.core.recipe import SGD, AdaHessian, Adam, AdamW, Optimizer
from unknot.engine.bits import stable

Tensors = list[Tensor] | tuple[Tensor, ...]


class RowOptimizer:
    """Updates stacked parameters in place; its state has one row a model, as they have."""

    def __init__(self, spec: Optimizer, parameters: Tensors) -> None:
        self.spec = spec
        self.state = [[torch.zeros_like(p) for p in parameters] for _ in range(states(spec))]

    def step(self, step: int, parameters: Tensors, gradients: Tensors, curvatures: Tensors = ()) -> None:
        """Step number `step` (from 1) of the first rows: as many as `parameters` have."""
        rows = len(parameters[0])
        state = [[tensor[:rows] for tensor in part] for part in self.state]
        _STEPS[type(self.spec)](self.spec, step, list(parameters), list(gradients), state, list(curvatures))


def states(spec: Optimizer) -> int:
    """How many numbers the optimiser keeps for each parameter."""
    return (1 if spec.momentum else 0) if isinstance(spec, SGD) else 2


def clip(gradients: Tensors, bound: float) -> list[Tensor]:
    """Scale each row's gradient to at most this norm, as `clip_grad_norm_` does (with its 1e-6)."""
    parts = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients], dim=1)
    norms = torch.linalg.vector_norm(parts, dim=1)
    factors = (bound / (norms + 1e-6)).clamp(max=1.0)
    return [g * factors.view(-1, *(1,) * (g.dim() - 1)) for g in gradients]


def curvature(products: Tensors, signs: Tensors, kernels: Sequence[tuple[int, int] | None]) -> list[Tensor]:
    """|v·Hv|, averaged over the kernel axes of convolutions."""
    diagonals = [(hv * v).abs_() for hv, v in zip(products, signs, strict=True)]
    return [d if axes is None else _kernel_mean(d, axes) for d, axes in zip(diagonals, kernels, strict=True)]


def _kernel_mean(diagonal: Tensor, axes: tuple[int, int]) -> Tensor:
    # The kernel goes last first: then a mean runs over one stretch of memory, whatever the rows.
    mean = diagonal.movedim(axes, (-2, -1)).contiguous().mean((-2, -1), keepdim=True)
    return mean.movedim((-2, -1), axes)


def _sgd(spec: SGD, step: int, p: Tensors, g: Tensors, state: list[list[Tensor]], _: Tensors) -> None:
    if spec.weight_decay:
        g = torch._foreach_add(g, p, alpha=spec.weight_decay)
    if spec.momentum:
        (velocity,) = state  # starts at 0, so that the first step leaves the gradient in it
        torch._foreach_mul_(velocity, spec.momentum)
        torch._foreach_add_(velocity, g)
        g = torch._foreach_add(g, velocity, alpha=spec.momentum) if spec.nesterov else velocity
    torch._foreach_add_(p, g, alpha=-spec.lr)


def _adam(
    spec: Adam | AdamW, step: int, p: Tensors, g: Tensors, state: list[list[Tensor]], _: Tensors
) -> None:
    if spec.weight_decay and isinstance(spec, AdamW):
        torch._foreach_mul_(p, 1 - spec.lr * spec.weight_decay)
    elif spec.weight_decay:
        g = torch._foreach_add(g, p, alpha=spec.weight_decay)
    mean, square = state
    first, second = spec.betas
    torch._foreach_lerp_(mean, g, 1 - first)
    torch._foreach_mul_(square, second)
    torch._foreach_addcmul_(square, g, g, value=1 - second)
    bottom = torch._foreach_sqrt(square)
    torch._foreach_div_(bottom, math.sqrt(1 - second**step))
    torch._foreach_add_(bottom, spec.eps)
    torch._foreach_addcdiv_(p, mean, bottom, value=-spec.lr / (1 - first**step))


def _ada_hessian(
    spec: AdaHessian, step: int, p: Tensors, g: Tensors, state: list[list[Tensor]], d: Tensors
) -> None:
    mean, square = state
    first, second = spec.betas
    torch._foreach_mul_(mean, first)
    torch._foreach_add_(mean, g, alpha=1 - first)
    torch._foreach_mul_(square, second)
    correction = math.sqrt(1 - second**step) ** spec.hessian_power
    for weight, m, s, diagonal in zip(p, mean, square, d, strict=True):
        s.addcmul_(diagonal, diagonal, value=1 - second)
        bottom = (power(s.sqrt(), spec.hessian_power) / correction).add_(spec.eps)
        change = m / (1 - first**step) / bottom
        weight.sub_(change.add_(weight, alpha=spec.weight_decay), alpha=spec.lr)


def power(x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` with the same bits wherever a number lies."""
    if exponent == 1:
        return x
    return stable.pointwise(lambda flat: flat.pow(exponent), x)


_STEPS: dict[type, Callable[..., None]] = {SGD: _sgd, Adam: _adam, AdamW: _adam, AdaHessian: _ada_hessian}
