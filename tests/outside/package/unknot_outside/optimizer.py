"""Lion (Chen et al. 2023): the sign of a blend of gradient and momentum."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from unknot.core.training import Optimizer


@dataclass(frozen=True)
class Lion(Optimizer):
    """Every weight moves by the learning rate, up or down; weight decay is apart from that."""

    lr: float = 0.001
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    name: ClassVar[str] = "lion"

    def make(self, parameters):
        return _Lion(parameters, self)


class _Lion(torch.optim.Optimizer):
    def __init__(self, parameters, spec):
        super().__init__(parameters, {"lr": spec.lr})
        self.spec = spec

    @torch.no_grad()
    def step(self, closure=None):
        first, second = self.spec.betas
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * self.spec.weight_decay)
                p.sub_(group["lr"] * (first * m + (1 - first) * p.grad).sign())
                m.mul_(second).add_(p.grad, alpha=1 - second)
