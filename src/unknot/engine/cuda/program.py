"""Any model that runs as a stack, on a GPU: forward by its program or by vmap, backward by autograd."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from unknot.core.data import Samples
from unknot.core.loss import Loss
from unknot.core.training import Recipe, StepRule
from unknot.engine.bits.stable import Guard
from unknot.engine.cuda.courses import Course
from unknot.engine.layers.program import Forward
from unknot.engine.outputs import fitted
from unknot.engine.ways.stack import Parameters, Stacking


class ProgramCourse(Course):
    """Stacks of a model, for any recipe whose optimiser asks for no curvature."""

    def __init__(
        self,
        forward: Forward,
        recipe: Recipe,
        round: int,
        loss: Loss,
        guarded: bool,
        rows: int,
        steps: int,
        batch: int,
        samples: Samples,
        setting: Stacking,
    ) -> None:
        super().__init__(rows, steps, batch, samples, setting)
        self.forward, self.loss, self.steady = forward, loss, recipe.steady
        nothing = torch.zeros(rows, setting.layout.size, dtype=setting.dtype, device=setting.device)
        self._parameters = Parameters(nothing, setting, forward)
        trained = [self._parameters.tensors[name] for name in setting.trainable]
        kernels = [self._parameters.kernel_axes(name) for name in setting.trainable]
        self._rule = StepRule(recipe, round, trained, kernels)
        self._guard: Callable[[int], AbstractContextManager[object]] = Guard if guarded else _nothing
        self._careful = Guard if loss.guarded and not guarded else _nothing

    def begin(self, starts: Tensor) -> None:
        self._parameters.load(starts)
        self._rule.begin()

    def take(self, number: int, reads: Tensor, weights: Tensor) -> Tensor:
        width, samples = len(reads), self.samples
        leaves = {name: tensor[:width].detach() for name, tensor in self._parameters.tensors.items()}
        active = [leaves[name].requires_grad_() for name in self.setting.trainable]
        rows = reads.reshape(-1)
        x = samples.x.index_select(0, rows).view(width, self.batch, *samples.x.shape[1:])
        y = samples.y.index_select(0, rows).view(width, self.batch, *samples.y.shape[1:])
        with self._guard(width):
            outputs = fitted(self.forward(leaves, x), y, samples.kind, 2, self.loss.own)
            with self._careful(width):
                losses, error = self.loss.error(outputs.detach(), y, weights)
            gradients = torch.autograd.grad(outputs, active, error, materialize_grads=True)
        self._rule.take(number, gradients)
        return losses.detach()

    def vectors(self, rows: slice) -> Tensor:
        return self._parameters.vectors(rows)


def _nothing(rows: int) -> AbstractContextManager[object]:
    return nullcontext()
