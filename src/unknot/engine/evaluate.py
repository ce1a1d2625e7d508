"""What weights say of some samples, and how well: in slices of one size, so that it has one definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.core.loss import Loss, as_answers
from unknot.core.metrics import Metric, Said
from unknot.core.own import is_own, of_unknot
from unknot.engine.outputs import fitted
from unknot.engine.precision import FULL, Precision

SLICE = 512


@dataclass(frozen=True)
class Tally:
    """What one slice adds to a score: to the loss, and to each metric."""

    samples: int
    loss: float
    metrics: tuple[Any, ...]


def slices(samples: Samples) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets, `SLICE` samples at a time."""
    if not len(samples):
        raise ConfigError("there are no samples to evaluate on")
    starts = range(0, len(samples), SLICE)
    return [(samples.x[i : i + SLICE], samples.y[i : i + SLICE]) for i in starts]


class Judge:
    """How models are judged on samples of one kind."""

    def __init__(
        self, kind: str, loss: Loss, metrics: Sequence[Metric] = (), precision: Precision = FULL
    ) -> None:
        self.kind = kind
        self.loss = loss
        self.metrics = metrics
        self.precision = precision

    @torch.no_grad()
    def tally(self, model: nn.Module, x: Tensor, y: Tensor) -> Tally:
        """Score one slice. The model is only read: several threads may share it."""
        outputs = self.outputs(model, x, y)
        return self.tallied(Said(outputs, y, self.kind, self.loss(outputs, y).double()))

    @torch.no_grad()
    def tally_together(self, ensemble: Ensemble, model: nn.Module, x: Tensor, y: Tensor) -> Tally:
        """Score one slice by what several models say together, each put into `model` in its turn.

        The loss is that of the share of the votes (or of the mean probability) that the target got.
        """
        answers = self.answers_together(ensemble, model, x, y)
        losses = self.loss.of_answers(answers, y, self.kind)
        return self.tallied(Said(answers, y, self.kind, losses, together=True))

    @torch.no_grad()
    def answers(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The probabilities of one slice, or its values; `y` says of what shape the answer must be."""
        return as_answers(self.outputs(model, x, y), self.kind)

    @torch.no_grad()
    def answers_together(self, ensemble: Ensemble, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The share of the votes (or the mean probability) that every class gets; of others the mean."""
        return self.together(
            ensemble, (self.answers(weights.load_into(model), x, y) for _, weights in ensemble.parts)
        )

    def together(self, ensemble: Ensemble, voices: Iterable[Tensor]) -> Tensor:
        """The answer of an ensemble, from those of its models in their order."""
        total = sum(factor for factor, _ in ensemble.parts)
        added: Tensor | float = 0.0
        for (factor, _), voice in zip(ensemble.parts, voices, strict=True):
            if ensemble.vote == "majority" and self.kind == "classes":
                none = voice.isnan().any(-1, keepdim=True)  # such a model names nothing, and nobody knows
                voice = nn.functional.one_hot(voice.argmax(-1), voice.shape[-1]).double()
                voice = voice.masked_fill(none, torch.nan)
            added = added + voice * (factor / total)
        return torch.as_tensor(added)

    def score(self, tallies: Sequence[Tally]) -> Score:
        """The slices together; the loss is the mean over samples."""
        samples = sum(tally.samples for tally in tallies)
        loss = sum(tally.loss for tally in tallies) / samples
        parts = zip(*(tally.metrics for tally in tallies), strict=True)
        found = {m.name: m.value(part) for m, part in zip(self.metrics, parts, strict=True)}
        return Score(found, loss, samples)

    def outputs(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """What a model gives for one slice, as the loss takes it; one of your own may write there."""
        mine = x if of_unknot(type(model)) else x.clone()
        return fitted(self.precision.outputs(model, mine), y, self.kind, 1, self.loss.own)

    def tallied(self, said: Said) -> Tally:
        """What one slice adds, of which it is known what was said."""
        added = tuple(metric.tally(said.copy() if is_own(metric) else said) for metric in self.metrics)
        return Tally(len(said.targets), said.losses.sum().item(), added)
