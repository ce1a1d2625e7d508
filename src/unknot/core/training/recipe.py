"""How a client trains, and the one step rule: what happens between a gradient and the next weights.

Every way to train goes by this file: a field that is added to the recipe is made to count here, in
`StepRule`, and nowhere else. What `only_adds` does not know of, it says no to.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import torch
from torch import Tensor

from unknot.core import registry
from unknot.core.errors import ConfigError
from unknot.core.loss import Loss, as_loss
from unknot.core.training.limits import at_least_one, not_negative, positive
from unknot.core.training.optimizers import SGD, Curved, Optimizer, Tensors, bare_step, numbers_kept
from unknot.core.training.schedules import ConstantRate, Schedule
from unknot.core.training.steady import by_row, row_norms

Kernel = tuple[int, int] | None
"""The axes of a stack on which a convolution's kernel lies; None for what is no convolution."""


@dataclass(frozen=True)
class Recipe:
    """What a client does with the model that it is sent.

    It passes over its data in keyed random order. Optimiser, schedule and loss may be given by name:
    ``Recipe("adam")``.
    """

    optimizer: Optimizer = field(default_factory=SGD)
    """How a gradient becomes a step."""
    epochs: int = 1
    """Passes over the client's data in each job, at least 1."""
    batch_size: int = 32
    """Samples a step; the last batch of a pass may be smaller."""
    clip: float | None = None
    """Gradients longer than this are scaled down to it; left out: never."""
    proximal: float = 0.0
    """FedProx's μ: ``μ/2·‖w − w_start‖²`` is added to the loss."""
    max_steps: int | None = None
    """Stop a job after so many steps; left out: when its passes are over."""
    schedule: Schedule = field(default_factory=ConstantRate)
    """How the learning rate changes."""
    radius: float | None = None
    """After each step weights are projected back into the ball of this radius about the start."""
    ascent: bool = False
    """Climb the loss instead of descending."""
    loss: Loss | None = None
    """What is descended; left out: the usual one for the data."""

    def __post_init__(self) -> None:
        if self.loss is not None:
            object.__setattr__(self, "loss", as_loss(self.loss))
        for name, known in (("optimizer", registry.optimizers), ("schedule", registry.schedules)):
            object.__setattr__(self, name, known.given(getattr(self, name), f"Recipe: {name}"))
        at_least_one(self, epochs=self.epochs, batch_size=self.batch_size, max_steps=self.max_steps)
        not_negative(self, proximal=self.proximal)
        positive(self, **{n: v for n in ("clip", "radius") if (v := getattr(self, n)) is not None})

    def steps(self, samples: int) -> int:
        """How many optimiser steps a client with this many samples takes."""
        steps = self.epochs * -(-samples // self.batch_size)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def samples_seen(self, samples: int) -> int:
        """How many samples those steps read, each reading counted."""
        if self.max_steps is None:
            return self.epochs * samples
        epochs, rest = divmod(self.steps(samples), -(-samples // self.batch_size)) if samples else (0, 0)
        return epochs * samples + rest * self.batch_size

    def rate(self, step: int, round: int) -> float:
        """The learning rate of a local step (from 0) in a round (from 0)."""
        return self.optimizer.lr * self.schedule.scale(step, round)

    def together(self, round: int) -> Hashable:
        """Jobs for which this is equal take the same steps, and can be trained in one stack."""
        return self, self.rate(0, round) if self.schedule.over == "rounds" else None

    @property
    def one_rate(self) -> bool:
        """Whether all steps of a job are taken at the same rate."""
        return self.schedule == ConstantRate() or self.schedule.over == "rounds"

    @property
    def anchored(self) -> bool:
        """Whether a step looks back at the weights that the job started from."""
        return bool(self.proximal) or self.radius is not None

    @property
    def kept(self) -> int:
        """How many numbers are kept for each parameter from one step to the next."""
        return numbers_kept(self.optimizer) + self.anchored


class StepRule:
    """What happens between a gradient and the next weights, for all rows of a stack at once.

    In this order: the sign of the loss, the proximal term, clipping, the optimiser at the schedule's
    rate, the projection. `parameters` are stacks ``[rows, ...]`` and are changed in place; rows never
    meet. `kernels` are the axes of convolutions' kernels, for the Hessian's diagonal. One row by itself is
    to the optimiser what it is without a stack.
    """

    def __init__(
        self, recipe: Recipe, round: int, parameters: Sequence[Tensor], kernels: Sequence[Kernel]
    ) -> None:
        self.recipe = recipe
        self.round = round
        self.kernels = kernels
        self._all = list(parameters)
        self._alone = len(self._all[0]) == 1
        self._starts = [torch.empty_like(p) for p in parameters] if recipe.anchored else []
        self.begin()

    def begin(self) -> None:
        """Forget all steps: the parameters are new starts."""
        for start, parameter in zip(self._starts, self._all, strict=bool(self._starts)):
            start.copy_(parameter)
        self._renew()
        self._narrow(len(self._all[0]))

    def _renew(self) -> None:
        """An optimiser that has seen nothing."""
        optimizer = self.recipe.optimizer
        self._trained = [p[0] if self._alone else p[:] for p in self._all]
        self._optimizer = optimizer.make(self._trained)
        if optimizer.curvature and not isinstance(self._optimizer, Curved):
            raise ConfigError(
                f"{type(optimizer).__name__} makes an optimiser without a place for the Hessian's diagonal: "
                "make it a subclass of unknot.core.training.Curved"
            )
        self._step = bare_step(self._optimizer)

    def _narrow(self, rows: int) -> None:
        """Go on with the first rows, of the parameters and of what the optimiser keeps of them."""
        self._rows = rows
        self._here = [p[:rows] for p in self._all]
        self._first = [p[:rows] for p in self._starts]
        if self._alone:
            return
        for trained, here in zip(self._trained, self._here, strict=True):
            for value in self._optimizer.state.get(trained, {}).values():
                if isinstance(value, Tensor) and value.dim() and len(value) == len(trained):
                    value.data = value[:rows]
            trained.data = here

    @torch.no_grad()
    def take(
        self,
        step: int,
        gradients: Tensors,
        products: Sequence[Tensor] = (),
        signs: Sequence[Tensor] = (),
    ) -> None:
        """Local step number `step` (from 0) of the first rows: as many as the gradients have.

        Gradients are those of the loss alone, and are only read. `products` are its Hessian times
        `signs`, where the optimiser wants curvature.
        """
        recipe, optimizer = self.recipe, self._optimizer
        if len(gradients[0]) != self._rows:
            self._narrow(len(gradients[0]))
        if recipe.ascent:
            gradients, products = [-g for g in gradients], [-hv for hv in products]
        if recipe.proximal:
            gradients = [
                g + recipe.proximal * (p - p0)
                for g, p, p0 in zip(gradients, self._here, self._first, strict=True)
            ]
            # The proximal term is part of the loss: its Hessian is μ on the diagonal.
            products = [hv + recipe.proximal * v for hv, v in zip(products, signs, strict=True)]
        if recipe.clip is not None:
            gradients = clipped(gradients, recipe.clip)
        if isinstance(optimizer, Curved):
            optimizer.diagonals = self._each(diagonals(products, signs, self.kernels))
        for parameter, gradient in zip(self._trained, self._each(gradients), strict=True):
            parameter.grad = gradient
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step, self.round)
        self._step()
        for parameter in self._trained:
            parameter.grad = None
        if recipe.radius is not None:
            project(self._here, self._first, recipe.radius)

    def _each(self, stacks: Tensors) -> list[Tensor]:
        """As the optimiser has them."""
        return [stack[0] for stack in stacks] if self._alone else list(stacks)


def diagonals(products: Sequence[Tensor], signs: Sequence[Tensor], kernels: Sequence[Kernel]) -> list[Tensor]:
    """The Hessian's diagonal by Hutchinson: |v·Hv|, averaged over the kernel axes of convolutions."""
    found = torch._foreach_mul(list(products), list(signs))
    torch._foreach_abs_(found)
    return [d if axes is None else _kernel_mean(d, axes) for d, axes in zip(found, kernels, strict=True)]


def _kernel_mean(diagonal: Tensor, axes: tuple[int, int]) -> Tensor:
    # The kernel goes last first: then a mean runs over one stretch of memory, whatever the rows.
    mean = diagonal.movedim(axes, (-2, -1)).contiguous().mean((-2, -1), keepdim=True)
    return mean.movedim((-2, -1), axes)


def clipped(gradients: Sequence[Tensor], bound: float) -> list[Tensor]:
    """Scale each row's gradient to at most this norm, as `clip_grad_norm_` does (with its 1e-6)."""
    factors = (bound / (row_norms(gradients) + 1e-6)).clamp(max=1.0)
    return [g * by_row(factors, g) for g in gradients]


def project(weights: Sequence[Tensor], starts: Sequence[Tensor], radius: float) -> None:
    """Move each row that is farther than this from its start back to that distance, in place."""
    moved = [p - p0 for p, p0 in zip(weights, starts, strict=True)]
    norms = row_norms(moved)
    outside, share = norms > radius, radius / norms
    for p, p0, d in zip(weights, starts, moved, strict=True):
        p.copy_(torch.where(by_row(outside, p), p0 + d * by_row(share, p), p))


class Addition(NamedTuple):
    """A step that is ``weights ← keep·weights + rate·gradient``."""

    keep: float
    rate: float


_KNOWN = ("optimizer", "schedule", "epochs", "batch_size", "max_steps", "loss")


def only_adds(recipe: Recipe, round: int = 0) -> Addition | None:
    """The step of plain SGD at one rate, to be written out by hand; None where there is more to a step.

    Of all fields but those that it knows, it wants the default.
    """
    optimizer = recipe.optimizer
    if type(optimizer) is not SGD or optimizer != SGD(optimizer.lr, weight_decay=optimizer.weight_decay):
        return None
    if recipe.loss is not None and not recipe.loss.plain:
        return None
    if not recipe.one_rate:
        return None
    if any(f.name not in _KNOWN and getattr(recipe, f.name) != f.default for f in fields(recipe)):
        return None
    rate = recipe.rate(0, round)
    return Addition(1 - rate * optimizer.weight_decay, -rate)
