"""Adam, and AdamW with its weight decay apart from the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.training.limits import betas, not_negative, positive
from unknot.core.training.optimizers.base import Optimizer, Tensors


@dataclass(frozen=True)
class Adam(Optimizer):
    """As `torch.optim.Adam`: weight decay is added to the gradient."""

    lr: float = 0.001
    """Learning rate, above 0; the schedule takes a share of it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running means of the gradient and of its square, each at least 0 and below 1."""
    eps: float = 1e-8
    """Added to the divisor, so that it is never 0."""
    weight_decay: float = 0.0
    """How strongly weights are pulled towards 0; not negative."""

    name: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(self, weight_decay=self.weight_decay)
        betas(self, self.betas)

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            parameters, lr=self.lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay
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
        if self.weight_decay:
            gradients = torch._foreach_add(gradients, parameters, alpha=self.weight_decay)
        _by_moments(self, step, rate, parameters, gradients, state)

    def states(self) -> int:
        return 2


@dataclass(frozen=True)
class AdamW(Optimizer):
    """As `torch.optim.AdamW`: weight decay is apart from the gradient."""

    lr: float = 0.001
    """Learning rate, above 0; the schedule takes a share of it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running means of the gradient and of its square, each at least 0 and below 1."""
    eps: float = 1e-8
    """Added to the divisor, so that it is never 0."""
    weight_decay: float = 0.01
    """How strongly weights are pulled towards 0; not negative."""

    name: ClassVar[str] = "adamw"

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(self, weight_decay=self.weight_decay)
        betas(self, self.betas)

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters, lr=self.lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay
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
        if self.weight_decay:
            torch._foreach_mul_(parameters, 1 - rate * self.weight_decay)
        _by_moments(self, step, rate, parameters, gradients, state)

    def states(self) -> int:
        return 2


def _by_moments(
    settings: Adam | AdamW,
    step: int,
    rate: float,
    parameters: Tensors,
    gradients: Tensors,
    state: Sequence[Tensors],
) -> None:
    """Along the mean gradient, over the root of the mean square, both freed from where they began."""
    mean, square = state
    first, second = settings.betas
    torch._foreach_lerp_(mean, gradients, 1 - first)
    torch._foreach_mul_(square, second)
    torch._foreach_addcmul_(square, gradients, gradients, value=1 - second)
    bottom = torch._foreach_sqrt(square)
    torch._foreach_div_(bottom, math.sqrt(1 - second**step))
    torch._foreach_add_(bottom, settings.eps)
    torch._foreach_addcdiv_(parameters, mean, bottom, value=-rate / (1 - first**step))
