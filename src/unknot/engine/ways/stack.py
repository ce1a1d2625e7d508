"""Training one stack: several jobs of one recipe at once, one a row, by autograd.

Rows are sorted by their number of steps, so the jobs that are still at work are always the first
ones: a step is taken on views of the first rows, and a row that is done is read out and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import Samples
from unknot.core.jobs import Update
from unknot.core.loss import Loss, loss_for
from unknot.core.training import StepRule, Tensors
from unknot.core.weights import Layout
from unknot.engine.bits.stable import Guard
from unknot.engine.layers.program import Forward
from unknot.engine.outputs import fitted
from unknot.engine.ways import lessons
from unknot.engine.ways.lessons import Lesson
from unknot.engine.workers import Stopped


@dataclass(frozen=True)
class Stacking:
    """What all stacks of an engine have in common."""

    layout: Layout
    device: torch.device
    dtype: torch.dtype
    widths: tuple[int, ...]  # how many rows a step may have, ascending; filled up with copies

    def width(self, active: int) -> int:
        """How many rows take part in a step in which `active` jobs are at work."""
        return next(width for width in self.widths if width >= active)


class Roster:
    """The rows of a stack: which job each one is, what it reads, and when it is done."""

    def __init__(self, lessons: Sequence[Lesson], setting: Stacking) -> None:
        self.lessons = sorted(lessons, key=lambda lesson: -lesson.steps)
        self.setting = setting
        filled = list(self.lessons)
        filled += [filled[0]] * (setting.width(len(filled)) - len(filled))
        self.rows = filled
        self.steps = filled[0].steps
        self.batch = filled[0].job.recipe.batch_size
        self._done = np.array([lesson.steps for lesson in self.lessons])
        active = np.searchsorted(-self._done, -np.arange(self.steps))  # those with more steps than that
        self.widths = [setting.width(count) for count in active.tolist()]  # of each step
        self.leaving: dict[int, list[int]] = {}  # by step, the rows whose last one it is
        for row, done in enumerate(self._done.tolist()):
            self.leaving.setdefault(done - 1, []).append(row)

    @cached_property
    def reads(self) -> Tensor:
        """The rows of samples that each step reads, ``[steps, rows, batch]``."""
        return torch.from_numpy(self._read[0]).to(self.setting.device)

    @cached_property
    def counts(self) -> Tensor:
        """How many of them are read for real, ``[steps, rows]``."""
        return torch.from_numpy(self._read[1]).to(self.setting.device)

    @cached_property
    def weights(self) -> Tensor:
        """What each sample's loss counts in its batch: 1/count, 0 for what fills up."""
        counts = self._read[1][:, :, None]
        weights = torch.from_numpy((np.arange(self.batch) < counts) / counts)
        return weights.to(device=self.setting.device, dtype=self.setting.dtype)

    @cached_property
    def _read(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        reads = np.empty((self.steps, len(self.rows), self.batch), dtype=np.int64)
        counts = np.empty((self.steps, len(self.rows)), dtype=np.int64)
        for row, lesson in enumerate(self.rows):
            rows, real, steps = lesson.rows, lesson.counts, lesson.steps
            reads[:steps, row], counts[:steps, row] = rows, real
            if steps < self.steps:  # done: reads on, but nobody reads it out
                reads[steps:, row], counts[steps:, row] = rows[-1], real[-1]
        return reads, counts

    def until(self, step: int) -> int:
        """The first step after this one at which a job is done or the stack has been at work for long."""
        return min(int(self._done[self._done > step].min()), step + 64)

    def starts(self) -> Tensor:
        """The start weights, ``[rows, size]``."""
        vectors = [lesson.job.start.vector for lesson in self.rows]
        if all(vector is vectors[0] for vector in vectors):
            one = vectors[0].to(device=self.setting.device, dtype=self.setting.dtype)
            return one.expand(len(vectors), -1)
        return torch.stack([v.to(device=self.setting.device, dtype=self.setting.dtype) for v in vectors])

    def updates(self, vectors: Sequence[Tensor], losses: Tensor) -> list[tuple[Lesson, Update]]:
        """The updates of the jobs, from the loss of every reading ``[steps, rows, batch]``."""
        readings = losses.double().cpu().numpy()
        return [
            (
                lesson,
                lesson.job.done(
                    vector.to(lesson.job.start.vector.device),
                    len(lesson.shard),
                    lesson.mean_loss(np.ascontiguousarray(readings[: lesson.steps, row])),
                ),
            )
            for row, (lesson, vector) in enumerate(zip(self.lessons, vectors, strict=True))
        ]


class Parameters:
    """The stacked parameters, each stored in the order of axes that its layer computes with."""

    def __init__(self, starts: Tensor, setting: Stacking, forward: Forward) -> None:
        self.setting = setting
        self.orders = {
            name: tuple(forward.stored.get(name, range(len(shape))))
            for name, shape in zip(setting.layout.names, setting.layout.shapes, strict=True)
        }
        self.tensors = {name: self.store(name, part) for name, part in setting.layout.split(starts).items()}

    def store(self, name: str, part: Tensor) -> Tensor:
        """A stack of one parameter ``[rows, *shape]`` in its stored order, in memory of its own."""
        order = self.orders[name]
        return part.permute(0, *(axis + 1 for axis in order)).clone(memory_format=torch.contiguous_format)

    def stored(self, vectors: Tensor) -> list[Tensor]:
        """Numbers for all parameters ``[rows, size]``: those of what is trained, each in its stored order."""
        parts = self.setting.layout.split(vectors)
        return [self.store(name, parts[name]) for name in self.setting.layout.names]

    def load(self, starts: Tensor) -> None:
        """Put other weights into the first rows."""
        for name, part in self.setting.layout.split(starts).items():
            order = self.orders[name]
            self.tensors[name][: len(starts)] = part.permute(0, *(axis + 1 for axis in order))

    def vector(self, row: int) -> Tensor:
        """One row's weights, as its layout has them."""
        return self.vectors(slice(row, row + 1)).view(-1)

    def vectors(self, rows: slice) -> Tensor:
        """The weights of these rows, ``[rows, size]``."""
        parts = []
        for name in self.setting.layout.names:
            order = self.orders[name]
            back = [order.index(axis) + 1 for axis in range(len(order))]
            parts.append(self.tensors[name][rows].permute(0, *back).flatten(1))
        return torch.cat(parts, 1)

    def kernel_axes(self, name: str) -> tuple[int, int] | None:
        """Where in the stack a convolution's kernel lies; None for what is no convolution."""
        order = self.orders[name]
        return (order.index(2) + 1, order.index(3) + 1) if len(order) == 4 else None


def train_stack(
    forward: Forward,
    lessons: Sequence[Lesson],
    samples: Samples,
    setting: Stacking,
    stop: Event,
    guard: Callable[[int], AbstractContextManager[object]] = lambda rows: nullcontext(),
    loss: Loss | None = None,
) -> list[tuple[Lesson, Update]]:
    """Train jobs of one recipe together; each result is as if the job had been alone.

    `loss` is the recipe's as an engine has examined it.
    """
    recipe = lessons[0].job.recipe
    loss = loss or recipe.loss or loss_for(samples)
    careful = Guard if loss.guarded and guard is not Guard else lambda rows: nullcontext()
    roster = Roster(lessons, setting)
    parameters = Parameters(roster.starts(), setting, forward)
    trained = [parameters.tensors[name] for name in setting.layout.names]
    kernels = [parameters.kernel_axes(name) for name in setting.layout.names]
    rule = StepRule(recipe, lessons[0].job.version, trained, kernels)
    losses = torch.zeros_like(roster.weights)
    vectors: list[Tensor] = [torch.empty(0)] * len(roster.lessons)
    targets = samples.y.index_select(0, roster.reads.reshape(-1)).view(
        *roster.reads.shape, *samples.y.shape[1:]
    )
    second_order = recipe.optimizer.curvature
    gradients: Tensors = ()
    products, signs = list[Tensor](), list[Tensor]()
    width, leaves, active = 0, dict[str, Tensor](), list[Tensor]()
    for step in range(roster.steps):
        if stop.is_set():
            raise Stopped
        if roster.widths[step] != width:
            width = roster.widths[step]
            leaves = {name: tensor[:width].detach() for name, tensor in parameters.tensors.items()}
            active = [leaves[name].requires_grad_() for name in setting.layout.names]
        x = samples.x.index_select(0, roster.reads[step, :width].reshape(-1))
        x = x.view(width, roster.batch, *samples.x.shape[1:])
        y, weights = targets[step, :width], roster.weights[step, :width]
        with guard(width):
            outputs = fitted(forward(leaves, x), y, samples.kind, 2, loss.own)
            if second_order:
                with careful(width):
                    reading = loss.stacked(outputs, y)
                    total = (reading * weights).sum()
                    signs = drawn_signs(roster, step, parameters, width)
                    gradients, products = differentiate_twice(total, active, signs)
            else:
                with careful(width):
                    reading, error = loss.error(outputs.detach(), y, weights)
                gradients = torch.autograd.grad(outputs, active, error, materialize_grads=True)
        losses[step, :width] = reading.detach()
        rule.take(step, gradients, products, signs)
        for row in roster.leaving.get(step, ()):
            vectors[row] = parameters.vector(row)
    return roster.updates(vectors, losses)


def drawn_signs(roster: Roster, step: int, parameters: Parameters, width: int) -> list[Tensor]:
    """Hutchinson's ±1 of one step for the first rows, as the parameters are stored."""
    setting = parameters.setting
    drawn = torch.stack([lessons.signs(lesson.job, step, setting.layout) for lesson in roster.rows[:width]])
    return parameters.stored(drawn.to(device=setting.device, dtype=setting.dtype))


def differentiate_twice(
    total: Tensor, active: list[Tensor], signs: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients, and the Hessian's products with vectors of signs.

    The rows' losses have no parameter in common, so the Hessian of their sum is block-diagonal: one
    backward pass gives every row its own product.
    """
    gradients = torch.autograd.grad(total, active, create_graph=True, materialize_grads=True)
    products = lessons.hessian_products(gradients, active, signs)
    return [g.detach() for g in gradients], [hv.detach() for hv in products]
