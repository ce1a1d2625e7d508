"""What weights say of some samples, and how well: in slices of one size, so that it has one definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.jobs import Score
from unknot.engine import checks
from unknot.engine.ways import lessons

SLICE = 512


@dataclass(frozen=True)
class Tally:
    """What one slice adds to a score."""

    samples: int
    loss: float
    correct: int
    targets: int


def slices(samples: Samples) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets, `SLICE` samples at a time."""
    if not len(samples):
        raise ConfigError("there are no samples to evaluate on")
    starts = range(0, len(samples), SLICE)
    return [(samples.x[i : i + SLICE], samples.y[i : i + SLICE]) for i in starts]


@torch.no_grad()
def tally(model: nn.Module, x: Tensor, y: Tensor) -> Tally:
    """Score one slice. The model is only read: several threads may share it."""
    logits = model(x)
    loss = lessons.sample_losses(logits, y).double().sum().item()
    correct = int((logits.argmax(-1) == y).sum().item())
    return Tally(len(x), loss, correct, y.numel())


@torch.no_grad()
def tally_together(ensemble: Ensemble, model: nn.Module, x: Tensor, y: Tensor) -> Tally:
    """Score one slice by the vote of several models, each put into `model` in its turn.

    The loss is that of the share of the votes (or of the mean probability) that the target got.
    """
    given = shares(ensemble, model, x, y)
    mine = given.gather(-1, y.unsqueeze(-1)).squeeze(-1).clamp_min(1e-12)
    loss = -mine.log().view(len(x), -1).mean(1).sum().item()
    correct = int((given.argmax(-1) == y).sum().item())
    return Tally(len(x), loss, correct, y.numel())


@torch.no_grad()
def probabilities(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The probability of every class for one slice; `y` says of what shape the answer must be."""
    logits = model(x)
    checks.check_logits(logits, y, lead=1)
    return torch.as_tensor(logits.double().softmax(-1))


@torch.no_grad()
def shares(ensemble: Ensemble, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The share of the votes (or the mean probability) that every class gets for one slice."""
    total = sum(factor for factor, _ in ensemble.parts)
    added: Tensor | float = 0.0
    for factor, weights in ensemble.parts:
        voice = probabilities(weights.load_into(model), x, y)
        if ensemble.vote == "majority":
            voice = nn.functional.one_hot(voice.argmax(-1), voice.shape[-1]).double()
        added = added + voice * (factor / total)
    return torch.as_tensor(added)


def score(tallies: Sequence[Tally]) -> Score:
    """The slices together: accuracy over targets (positions, for text), mean loss over samples."""
    samples = sum(tally.samples for tally in tallies)
    loss = sum(tally.loss for tally in tallies) / samples
    accuracy = sum(tally.correct for tally in tallies) / sum(tally.targets for tally in tallies)
    return Score(accuracy, loss, samples)
