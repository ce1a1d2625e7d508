"""How a client trains: the optimiser and the local schedule. Plain values, no code."""

from __future__ import annotations

from dataclasses import dataclass, field

from unknot.core.errors import ConfigError


def _positive(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ConfigError(f"{type(owner).__name__}: {name} must be positive, not {value}")


def _not_negative(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ConfigError(f"{type(owner).__name__}: {name} must not be negative, not {value}")


def _betas(owner: object, betas: tuple[float, float]) -> None:
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ConfigError(f"{type(owner).__name__}: betas must be two numbers in [0, 1), not {betas}")


@dataclass(frozen=True)
class SGD:
    """As `torch.optim.SGD`: weight decay is added to the gradient."""

    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        _positive(self, lr=self.lr)
        _not_negative(self, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.nesterov and not self.momentum:
            raise ConfigError("SGD: nesterov needs a momentum above 0")


@dataclass(frozen=True)
class Adam:
    """As `torch.optim.Adam`: weight decay is added to the gradient."""

    lr: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, lr=self.lr, eps=self.eps)
        _not_negative(self, weight_decay=self.weight_decay)
        _betas(self, self.betas)


@dataclass(frozen=True)
class AdamW:
    """As `torch.optim.AdamW`: weight decay is apart from the gradient."""

    lr: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _positive(self, lr=self.lr, eps=self.eps)
        _not_negative(self, weight_decay=self.weight_decay)
        _betas(self, self.betas)


@dataclass(frozen=True)
class AdaHessian:
    """AdaHessian (Yao et al. 2021): Adam with Hutchinson's estimate of the Hessian's diagonal.

    The second moment averages the squared diagonal, itself averaged spatially over a convolution's
    kernel; `hessian_power` is the paper's k.
    """

    lr: float = 0.15
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-4
    weight_decay: float = 0.0
    hessian_power: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, lr=self.lr, eps=self.eps)
        _not_negative(self, weight_decay=self.weight_decay)
        _betas(self, self.betas)
        if not 0 <= self.hessian_power <= 1:
            raise ConfigError(f"AdaHessian: hessian_power must be in [0, 1], not {self.hessian_power}")


Optimizer = SGD | Adam | AdamW | AdaHessian


@dataclass(frozen=True)
class Recipe:
    """What a client does with the model that it is sent.

    `epochs` passes over its data in keyed random order, in batches of `batch_size` (the last one
    may be smaller), at most `max_steps` of them. `clip` bounds the gradient's norm; `proximal` is
    FedProx's μ: ``μ/2·‖w − w_start‖²`` is added to the loss.
    """

    optimizer: Optimizer = field(default_factory=SGD)
    epochs: int = 1
    batch_size: int = 32
    clip: float | None = None
    proximal: float = 0.0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Recipe: {name} must be at least 1, not {getattr(self, name)}")
        _not_negative(self, proximal=self.proximal)
        if self.clip is not None:
            _positive(self, clip=self.clip)
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"Recipe: max_steps must be at least 1, not {self.max_steps}")

    def steps(self, samples: int) -> int:
        """How many optimiser steps a client with this many samples takes."""
        steps = self.epochs * -(-samples // self.batch_size)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def samples_seen(self, samples: int) -> int:
        """How many samples those steps read, each reading counted."""
        steps = self.steps(samples)
        epochs, rest = divmod(steps, -(-samples // self.batch_size)) if samples else (0, 0)
        return epochs * samples + rest * self.batch_size
