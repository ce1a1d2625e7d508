"""AdaHessian: Adam with the Hessian's diagonal in place of the gradient's square."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.training.limits import betas, not_negative, positive, share
from unknot.core.training.optimizers.base import Curved, Optimizer, Tensors
from unknot.core.training.steady import pointwise


@dataclass(frozen=True)
class AdaHessian(Optimizer):
    """AdaHessian (Yao et al. 2021): Adam with Hutchinson's estimate of the Hessian's diagonal.

    The second moment averages the squared diagonal, itself averaged spatially over a convolution's
    kernel.
    """

    lr: float = 0.15
    """Learning rate, above 0; the schedule takes a share of it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running means of the gradient and of the squared Hessian diagonal, each in [0, 1)."""
    eps: float = 1e-4
    """Added to the divisor, so that it is never 0."""
    weight_decay: float = 0.0
    """How strongly weights are pulled towards 0; not negative."""
    hessian_power: float = 1.0
    """The paper's k, in [0, 1]: 1 divides by the curvature, 0 not at all."""

    name: ClassVar[str] = "adahessian"
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(self, weight_decay=self.weight_decay)
        betas(self, self.betas)
        share(self, hessian_power=self.hessian_power)

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return _Plain(parameters, self)

    def stacked(
        self,
        step: int,
        rate: float,
        parameters: Tensors,
        gradients: Tensors,
        state: Sequence[Tensors],
        curvatures: Tensors,
    ) -> None:
        mean, square = state
        first, second = self.betas
        torch._foreach_mul_(mean, first)
        torch._foreach_add_(mean, gradients, alpha=1 - first)
        torch._foreach_mul_(square, second)
        torch._foreach_addcmul_(square, curvatures, curvatures, value=1 - second)
        correction = math.sqrt(1 - second**step) ** self.hessian_power
        bottoms = [_power(root, self.hessian_power) for root in torch._foreach_sqrt(square)]
        torch._foreach_div_(bottoms, correction)
        torch._foreach_add_(bottoms, self.eps)
        changes = torch._foreach_div(mean, 1 - first**step)
        torch._foreach_div_(changes, bottoms)
        torch._foreach_add_(changes, parameters, alpha=self.weight_decay)
        torch._foreach_add_(parameters, changes, alpha=-rate)

    def states(self) -> int:
        return 2


class _Plain(Curved):
    """As its authors' code has it."""

    def __init__(self, parameters: Sequence[Tensor], settings: AdaHessian) -> None:
        super().__init__(parameters, {"lr": settings.lr})
        self.settings = settings
        self.steps = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.steps += 1
        settings, (group,) = self.settings, self.param_groups
        first, second = settings.betas
        k = settings.hessian_power
        for p, diagonal in zip(group["params"], self.diagonals, strict=True):
            state = self.state[p]
            if not state:
                state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
            mean, square = state["mean"], state["square"]
            mean.mul_(first).add_(p.grad, alpha=1 - first)
            square.mul_(second).addcmul_(diagonal, diagonal, value=1 - second)
            correction1, correction2 = 1 - first**self.steps, 1 - second**self.steps
            bottom = (square.sqrt() ** k / math.sqrt(correction2) ** k).add_(settings.eps)
            p.sub_(group["lr"] * (mean / correction1 / bottom + settings.weight_decay * p))


def _power(x: Tensor, exponent: float) -> Tensor:
    """``x ** exponent`` with the same bits wherever a number lies."""
    return x if exponent == 1 else pointwise(lambda flat: flat.pow(exponent), x)
