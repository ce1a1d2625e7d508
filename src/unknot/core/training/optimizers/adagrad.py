"""Adagrad: each number's rate falls with the sum of its squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.training.limits import not_negative, positive
from unknot.core.training.optimizers.base import Optimizer, Tensors


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """As `torch.optim.Adagrad` (Duchi, Hazan, Singer 2011): weight decay is added to the gradient."""

    lr: float = 0.01
    """Learning rate, above 0; the schedule takes a share of it."""
    lr_decay: float = 0.0
    """The rate is divided by 1 + this × the steps taken before; not negative."""
    weight_decay: float = 0.0
    """How strongly weights are pulled towards 0; not negative."""
    initial_accumulator_value: float = 0.0
    """Where the sum of squared gradients begins; not negative."""
    eps: float = 1e-10
    """Added to the divisor, so that it is never 0."""

    name: ClassVar[str] = "adagrad"

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(
            self,
            lr_decay=self.lr_decay,
            weight_decay=self.weight_decay,
            initial_accumulator_value=self.initial_accumulator_value,
        )

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(
            parameters,
            lr=self.lr,
            lr_decay=self.lr_decay,
            weight_decay=self.weight_decay,
            initial_accumulator_value=self.initial_accumulator_value,
            eps=self.eps,
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
        (total,) = state
        if step == 1 and self.initial_accumulator_value:
            torch._foreach_add_(total, self.initial_accumulator_value)
        if self.weight_decay:
            gradients = torch._foreach_add(gradients, parameters, alpha=self.weight_decay)
        torch._foreach_addcmul_(total, gradients, gradients)
        bottom = torch._foreach_sqrt(total)
        torch._foreach_add_(bottom, self.eps)
        torch._foreach_addcdiv_(parameters, gradients, bottom, value=-rate / (1 + (step - 1) * self.lr_decay))

    def states(self) -> int:
        return 1
