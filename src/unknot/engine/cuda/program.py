"""Any model that runs as a stack, on a GPU: forward by its program or by vmap, backward by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Event

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from unknot.core.data import Samples
from unknot.core.loss import Loss
from unknot.core.training import SGD, Adagrad, Adam, AdamW, Recipe, RMSprop, StepRule, Tensors
from unknot.engine.bits.stable import Guard
from unknot.engine.cuda.courses import Course, Outcome
from unknot.engine.cuda.draws import Holdings, Signs, sign_keys
from unknot.engine.layers.program import Forward
from unknot.engine.outputs import fitted
from unknot.engine.ways.stack import Parameters, Stacking, differentiate_twice

# Parameters: to capture a step with so many for each number, or one that differentiates twice, takes longer
# and more memory than to ask for it in parts.
MANY = 32

# What is captured whole, and the steps of which look at no number. Of all others the gradients are captured,
# and the optimiser takes its step by itself: what it knows beside its tensors a graph would not see change.
UNNUMBERED = SGD, RMSprop
CAPTURED = (*UNNUMBERED, Adam, AdamW, Adagrad)


class LastingRule(StepRule):
    """A step rule for steps that are captured: what its optimiser keeps stays where it is.

    Made of parameters that are 0. A graph has the rate and the number of the step that it was captured from.
    The optimiser does not see the steps that are played, and so is told the number of each that it sees.
    """

    _kept: list[tuple[Tensor, Tensor, Tensor]] | None = None  # as the rule has it, all rows of it, its start

    def _renew(self) -> None:
        if self._kept is not None:
            for value, whole, start in self._kept:
                value.data = whole
                whole.copy_(start)
            return
        super()._renew()
        for parameter in self._trained:
            parameter.grad = torch.zeros_like(parameter)
        self._step()  # from 0 along 0: what it keeps is there, as it begins
        self._optimizer.zero_grad()
        self._kept = [
            (value, value.detach(), value.clone())
            for kept in self._optimizer.state.values()
            for name, value in kept.items()
            if name != "step"
        ]
        # PyTorch refuses to capture a step whose number is written into it: here is a graph for each.
        for check in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
            setattr(self._optimizer, check, lambda: None)

    def take(
        self,
        step: int,
        gradients: Tensors,
        products: Sequence[Tensor] = (),
        signs: Sequence[Tensor] = (),
    ) -> None:
        for kept in self._optimizer.state.values():
            if "step" in kept:
                kept["step"].fill_(step)
        super().take(step, gradients, products, signs)


class ProgramCourse(Course):
    """Stacks of a model, for any recipe."""

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
        self.forward, self.loss = forward, loss
        kind = type(recipe.optimizer)
        self.steady = recipe.one_rate and kind in UNNUMBERED
        self.in_parts = not self.steady and (len(setting.layout.names) >= MANY or kind not in CAPTURED)
        nothing = torch.zeros(rows, setting.layout.size, dtype=setting.dtype, device=setting.device)
        self._parameters = Parameters(nothing, setting, forward)
        trained = [self._parameters.tensors[name] for name in setting.layout.names]
        kernels = [self._parameters.kernel_axes(name) for name in setting.layout.names]
        rule = StepRule if self.in_parts else LastingRule
        self._rule = rule(recipe, round, trained, kernels)
        self._guard: Callable[[int], AbstractContextManager[object]] = Guard if guarded else _nothing
        self._keys: Tensor | None = None  # of the signs, where the optimiser asks for curvature
        if recipe.optimizer.curvature:
            self._keys = torch.zeros(steps, rows, dtype=torch.int64, device=setting.device)
            self._signs = Signs(setting.layout.size, setting.device)
        self._careful = Guard if loss.guarded and not guarded else _nothing

    def run(self, outcome: Outcome, held: Holdings, stop: Event) -> Iterator[None]:
        if self._keys is not None:
            keys = sign_keys(outcome.roster)
            self._keys[: keys.shape[0], : keys.shape[1]].copy_(keys)
        yield from super().run(outcome, held, stop)

    def begin(self, starts: Tensor) -> None:
        self._parameters.load(starts)
        self._rule.begin()

    def take(self, number: int, reads: Tensor, weights: Tensor) -> Tensor:
        width, samples = len(reads), self.samples
        leaves = {name: tensor[:width].detach() for name, tensor in self._parameters.tensors.items()}
        active = [leaves[name].requires_grad_() for name in self.setting.layout.names]
        rows = reads.reshape(-1)
        x = samples.x.index_select(0, rows).view(width, self.batch, *samples.x.shape[1:])
        y = samples.y.index_select(0, rows).view(width, self.batch, *samples.y.shape[1:])
        gradients: Tensors
        products, signs = list[Tensor](), list[Tensor]()
        with self._guard(width), nullcontext() if self._keys is None else sdpa_kernel(SDPBackend.MATH):
            outputs = fitted(self.forward(leaves, x), y, samples.kind, 2, self.loss.own)
            if self._keys is None:
                with self._careful(width):
                    losses, error = self.loss.error(outputs.detach(), y, weights)
                gradients = torch.autograd.grad(outputs, active, error, materialize_grads=True)
            else:
                keys = self._keys[:, :width].index_select(0, self._now).squeeze(0)
                signs = self._parameters.stored(self._signs.of(keys, self.setting.dtype))
                with self._careful(width):
                    losses = self.loss.stacked(outputs, y)
                    gradients, products = differentiate_twice((losses * weights).sum(), active, signs)
        if self.in_parts:
            self._gradients = gradients, products, signs
        else:
            self._rule.take(number, gradients, products, signs)
        return losses.detach()

    def finish(self, number: int, gradients: tuple[Tensors, list[Tensor], list[Tensor]]) -> None:
        self._rule.take(number, *gradients)

    def vectors(self, rows: slice) -> Tensor:
        return self._parameters.vectors(rows)


def _nothing(rows: int) -> AbstractContextManager[object]:
    return nullcontext()
