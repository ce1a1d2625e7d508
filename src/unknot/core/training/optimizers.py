"""Optimisers: their settings, and how each is made by `torch.optim`, for one model as for a stack of many."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import torch
from torch import Tensor

from unknot.core.errors import ConfigError
from unknot.core.registry import optimizers
from unknot.core.training.limits import betas, decays, not_negative, positive, share
from unknot.core.training.steady import pointwise

Tensors = list[Tensor] | tuple[Tensor, ...]

# Else the first optimiser of a process has PyTorch import its compiler, to be told that this is not for it:
# most of a second and 70 MB.
_add = inspect.unwrap(torch.optim.Optimizer.add_param_group)
setattr(_add, "__dynamo_disable", _add)


@dataclass(frozen=True)
class Optimizer(ABC):
    """The settings of an optimiser, as a frozen dataclass, and how to make it."""

    lr: float
    """Learning rate, above 0; the schedule takes a share of it."""

    name: ClassVar[str]
    curvature: ClassVar[bool] = False
    """Whether it wants the Hessian's diagonal: what it makes is `Curved`."""

    @abstractmethod
    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        """The optimiser of one model, or of a stack ``[rows, ...]`` of which no row may see another.

        Its groups' "lr" is set before each step. What it keeps of a parameter is a tensor like it in
        ``state[parameter]``. Gradients are only read: autograd may hand out one tensor for two parameters.
        """


class Curved(torch.optim.Optimizer):
    """An optimiser with curvature: `diagonals`, the Hessian's, are set before each step."""

    diagonals: list[Tensor]


def bare_step(optimizer: torch.optim.Optimizer) -> Callable[[], object]:
    """Its step without what PyTorch wraps around it for compilers and profilers: that takes as long."""
    step = type(optimizer).step
    return partial(inspect.unwrap(step) if step.__module__.startswith("torch.optim.") else step, optimizer)


@lru_cache
def numbers_kept(optimizer: Optimizer) -> int:
    """How many numbers it keeps for each parameter from one step to the next: found by a step."""
    parameter = torch.zeros(2, 3)
    parameter.grad = torch.zeros(2, 3)
    made = optimizer.make([parameter])
    if isinstance(made, Curved):
        made.diagonals = [torch.zeros(2, 3)]
    with torch.no_grad():
        bare_step(made)()
    kept = made.state[parameter].values()
    return sum(isinstance(value, Tensor) and value.shape == parameter.shape for value in kept)


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

    def __post_init__(self) -> None:
        positive(self, lr=self.lr)
        not_negative(self, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and not self.momentum:
            raise ConfigError("SGD: nesterov needs a momentum above 0")

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        # All at once, as a GPU does it, Nesterov's step is added to the gradients, which are not its own.
        return torch.optim.SGD(parameters, **vars(self), foreach=False if self.nesterov else None)


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

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        # All parameters at once, with one result in between less: faster on a CPU, to the same bits.
        return torch.optim.Adam(parameters, **vars(self), foreach=True)


@dataclass(frozen=True)
class AdamW(Adam):
    """As `torch.optim.AdamW`: weight decay is apart from the gradient."""

    weight_decay: float = 0.01

    name: ClassVar[str] = "adamw"

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, **vars(self), foreach=True)


@dataclass(frozen=True)
class NAdam(Adam):
    """As `torch.optim.NAdam` (Dozat 2016): Adam with Nesterov's momentum."""

    lr: float = 0.002
    momentum_decay: float = 0.004
    """How fast the momentum grows to its full share; not negative."""

    name: ClassVar[str] = "nadam"

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, momentum_decay=self.momentum_decay)

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.NAdam(parameters, **vars(self))


@dataclass(frozen=True)
class RAdam(Adam):
    """As `torch.optim.RAdam` (Liu et al. 2020): Adam that is careful while it has seen few gradients."""

    name: ClassVar[str] = "radam"

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.RAdam(parameters, **vars(self))


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

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(parameters, **vars(self))


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

    def __post_init__(self) -> None:
        positive(self, lr=self.lr, eps=self.eps)
        not_negative(self, weight_decay=self.weight_decay, momentum=self.momentum)
        decays(self, alpha=self.alpha)

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(parameters, **vars(self))


@dataclass(frozen=True)
class AdaHessian(Adam):
    """AdaHessian (Yao et al. 2021): Adam with Hutchinson's estimate of the Hessian's diagonal.

    The second moment averages the squared diagonal, itself averaged spatially over a convolution's
    kernel.
    """

    lr: float = 0.15
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running means of the gradient and of the squared Hessian diagonal, each in [0, 1)."""
    eps: float = 1e-4
    hessian_power: float = 1.0
    """The paper's k, in [0, 1]: 1 divides by the curvature, 0 not at all."""

    name: ClassVar[str] = "adahessian"
    curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, hessian_power=self.hessian_power)

    def make(self, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
        return _AdaHessian(parameters, self)


class _AdaHessian(Curved):
    def __init__(self, parameters: Sequence[Tensor], settings: AdaHessian) -> None:
        super().__init__(parameters, {"lr": settings.lr})
        self.settings = settings
        self.steps = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.steps += 1
        settings, (group,) = self.settings, self.param_groups
        parameters, (first, second), k = group["params"], settings.betas, settings.hessian_power
        for p in parameters:
            if p not in self.state:
                self.state[p] = {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
        mean = [self.state[p]["mean"] for p in parameters]
        square = [self.state[p]["square"] for p in parameters]
        torch._foreach_mul_(mean, first)
        torch._foreach_add_(mean, [p.grad for p in parameters], alpha=1 - first)
        torch._foreach_mul_(square, second)
        torch._foreach_addcmul_(square, self.diagonals, self.diagonals, value=1 - second)
        bottoms = [
            root if k == 1 else pointwise(lambda flat: flat.pow(k), root)
            for root in torch._foreach_sqrt(square)
        ]
        torch._foreach_div_(bottoms, math.sqrt(1 - second**self.steps) ** k)
        torch._foreach_add_(bottoms, settings.eps)
        changes = torch._foreach_div(mean, 1 - first**self.steps)
        torch._foreach_div_(changes, bottoms)
        torch._foreach_add_(changes, parameters, alpha=settings.weight_decay)
        torch._foreach_add_(parameters, changes, alpha=-group["lr"])


OPTIMIZERS = optimizers.open(
    {kind.name: kind for kind in (SGD, Adam, AdamW, NAdam, RAdam, AdaHessian, Adagrad, RMSprop)}, Optimizer
)
