"""Stochastic gradient descent, with momentum (Nesterov's too) and weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.errors import ConfigError
from unknot.core.training.limits import not_negative, positive
from unknot.core.training.optimizers.base import Optimizer, Tensors


@dataclass(frozen=True)
class SGD(Optimizer):
    """As `torch.optim.SGD`: weight decay is added to the gradient."""

    lr: float = 0.01
    """Learning rate, above 0; the schedule takes a share of it."""
    momentum: float = 0.0
    """Share of the last step that is taken again; 0: none."""
    weight_decay: float = 0.0
    """How strongly weights are pulled towards 0; not negative."""
    nesterov: bool = False
    """Look ahead along the momentum, which must be above 0."""

    name: ClassVar[str] = "sgd"
    numbered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, lr=self.lr)
        not_negative(self, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and not self.momentum:
            raise ConfigError("SGD: nesterov needs a momentum above 0")

    def plain(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            parameters,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
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
        if self.momentum:
            (velocity,) = state  # starts at 0, so that the first step leaves the gradient in it
            torch._foreach_mul_(velocity, self.momentum)
            torch._foreach_add_(velocity, gradients)
            if self.nesterov:
                gradients = torch._foreach_add(gradients, velocity, alpha=self.momentum)
            else:
                gradients = velocity
        torch._foreach_add_(parameters, gradients, alpha=-rate)

    def states(self) -> int:
        return 1 if self.momentum else 0
