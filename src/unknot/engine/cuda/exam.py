"""Models judged on a GPU, one after the other without a wait: a pass over all samples is captured once.

Every model is run by the same kernels on the same slices, alone: what it is given does not depend on which
models are judged beside it. The GPU is waited for once, when all have been asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.loss import as_answers
from unknot.core.metrics import Said
from unknot.core.weights import Weights
from unknot.engine.cuda.graphs import captured
from unknot.engine.evaluate import SLICE, Judge, Tally, slices

NUMBERS = 2**25  # at most, of all that a model says of some samples: it is kept, and brought over
CAPTURED = 256  # slices at most: a graph has all of their kernels


class Exam:
    """What models say of some samples, on the GPU where these are, in slices of the usual size.

    `model` is the exam's own: models are put into it in their turn. The first pass is taken as it comes,
    which also makes the libraries ready; the second is captured, and played from then on.
    """

    def __init__(self, model: nn.Module, samples: Samples, judge: Judge) -> None:
        self._model, self._judge = model.eval(), judge
        self._slices = slices(samples)
        self._y = samples.y
        self._targets = samples.y.cpu()
        self._outputs, self._losses = torch.empty(0), torch.empty(0)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._came_before = False
        self.why_not_captured = "" if len(self._slices) <= CAPTURED else "too many samples for one graph"

    @torch.no_grad()
    def tallies(self, models: Sequence[Model]) -> list[list[Tally]]:
        """What every slice adds to the score of each model."""
        asked = [self._scored(model) for model in models]
        self._wait()
        return [[self._judge.tallied(part) for part in _cut(said)] for said in asked]

    @torch.no_grad()
    def answers(self, models: Sequence[Model]) -> list[Tensor]:
        """Probabilities or values of all samples, by each model."""
        asked = [_brought(self._answers(model)) for model in models]
        self._wait()
        return asked

    def _scored(self, model: Model) -> Said:
        """What a model says, on its way to the CPU."""
        kind, together = self._judge.kind, isinstance(model, Ensemble)
        if isinstance(model, Ensemble):
            said = self._answers(model)
            losses = self._judge.loss.of_answers(said, self._y, kind)
        else:
            said, losses = self._pass(model)
        return Said(_brought(said), self._targets, kind, _brought(losses), together)

    def _answers(self, model: Model) -> Tensor:
        kind = self._judge.kind
        if isinstance(model, Ensemble):
            voices = (as_answers(self._pass(weights)[0], kind) for _, weights in model.parts)
            return self._judge.together(model, voices)
        return as_answers(self._pass(model)[0], kind)

    def _pass(self, weights: Weights) -> tuple[Tensor, Tensor]:
        """Outputs and losses of all samples, until the next pass overwrites them."""
        weights.load_into(self._model)
        device = self._y.device
        if self._came_before and self._graph is None and device.type == "cuda" and not self.why_not_captured:
            self._graph, self.why_not_captured = captured(self._eagerly, device)
        if self._graph is None:
            self._eagerly()
        else:
            self._graph.replay()
        self._came_before = True
        return self._outputs, self._losses

    def _eagerly(self) -> None:
        outputs = [self._judge.outputs(self._model, x, y) for x, y in self._slices]
        pairs = zip(outputs, self._slices, strict=True)
        losses = [self._judge.loss(said, y).double() for said, (_, y) in pairs]
        if self._came_before:
            torch.cat(outputs, out=self._outputs)
            torch.cat(losses, out=self._losses)
        else:
            self._outputs, self._losses = torch.cat(outputs), torch.cat(losses)

    def _wait(self) -> None:
        if self._y.is_cuda:
            torch.cuda.current_stream(self._y.device).synchronize()


def _brought(tensor: Tensor) -> Tensor:
    """A copy on the CPU, which is there once the GPU has been waited for."""
    if not tensor.is_cuda:
        return tensor.clone()
    there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return there.copy_(tensor, non_blocking=True)


def _cut(said: Said) -> Iterator[Said]:
    for first in range(0, len(said.targets), SLICE):
        outputs, targets, losses = (
            part[first : first + SLICE] for part in (said.outputs, said.targets, said.losses)
        )
        yield Said(outputs, targets, said.kind, losses, said.together)
