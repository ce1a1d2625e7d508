"""RMSprop: each step over the root of a running mean of squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.training.limits import decays, not_negative, positive
from unknot.core.training.optimizers.base import Optimizer, Tensors


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """As `torch.optim.RMSprop` (Hinton 2012): weight decay is added to the gradient."""

    lr: float = 0.01
    """Learning rate, above 0; the schedule takes a share of it."""
    alpha: float = 0.99
    """Decay of the running mean of squared gradients, at least 0 and below 1."""
    eps: float = 1e-8
    """Added to the divisor, so that it is never 0."""
    weight_decay: float = 0.0
    """How strongly weights are pulled towards 0; not negative."""
    momentum: float = 0.0
    """Share of the last step that is taken again; 0: none."""
    centered: bool = False
    """Take the square of the mean off the mean square, as Graves (2013) does."""

    name: ClassVar[str] = "rmsprop"
    numbered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(self, weight_decay=self.weight_decay, momentum=self.momentum)
        decays(self, alpha=self.alpha)

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(
            parameters,
            lr=self.lr,
            alpha=self.alpha,
            eps=self.eps,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            centered=self.centered,
        )

    def stacked(
        self,
        step: int,
        rate: float,
        parameters: Tensors,
        gradients: Tensors,
        state: Sequence[Tensors],
        curvatures: Tensors,
    ) -> None:
        square, *others = state
        if self.weight_decay:
            gradients = torch._foreach_add(gradients, parameters, alpha=self.weight_decay)
        torch._foreach_mul_(square, self.alpha)
        torch._foreach_addcmul_(square, gradients, gradients, value=1 - self.alpha)
        if self.centered:
            mean = others.pop()
            torch._foreach_lerp_(mean, gradients, 1 - self.alpha)
            square = torch._foreach_addcmul(square, mean, mean, value=-1)
        bottom = torch._foreach_sqrt(square)
        torch._foreach_add_(bottom, self.eps)
        if self.momentum:
            (velocity,) = others
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_addcdiv_(velocity, gradients, bottom)
            torch._foreach_add_(parameters, velocity, alpha=-rate)
        else:
            torch._foreach_addcdiv_(parameters, gradients, bottom, value=-rate)

    def states(self) -> int:
        return 1 + bool(self.momentum) + self.centered
