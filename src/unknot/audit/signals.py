"""What an attack reads off a model's answer: how sure it is of the truth."""

from __future__ import annotations

import torch
from torch import Tensor

from unknot.core.errors import ConfigError
from unknot.core.samples import IGNORED, Samples

TINY = 1e-300  # a probability that double precision would round to 0


def check_classes(samples: Samples, why: str) -> None:
    """Refuse other targets than classes: nobody has asked such questions of labels or values yet."""
    if samples.kind != "classes":
        raise ConfigError(
            f"{why}, and these targets are {samples.kind}. Whether erased data has a part in what is served "
            "is shown for any task by unknot.audit.interference"
        )


def truth(answers: Tensor, y: Tensor) -> Tensor:
    """The probability of the true class, ``[..., n]``; for text, its geometric mean over the positions."""
    return _over_positions(_gathered(answers, y).clamp_min(TINY).log(), y).exp()


def confidence(answers: Tensor, y: Tensor) -> Tensor:
    """log(p / (1 − p)) of the true class, ``[..., n]``: near enough a normal variable over models.

    1 − p is the sum of the others, which keeps its digits where p is almost 1. For text, the mean over
    the positions.
    """
    right = _gathered(answers, y).clamp_min(TINY)
    mine = torch.nn.functional.one_hot(y.clamp_min(0), answers.shape[-1]).bool()
    wrong = answers.masked_fill(mine, 0.0).sum(-1).clamp_min(TINY)
    return _over_positions(right.log() - wrong.log(), y)


def _gathered(answers: Tensor, y: Tensor) -> Tensor:
    index = y.clamp_min(0).expand(answers.shape[:-1]).unsqueeze(-1)
    return answers.gather(-1, index).squeeze(-1)


def _over_positions(values: Tensor, y: Tensor) -> Tensor:
    """Of a text the mean over the positions that are not masked."""
    if y.dim() == 1:
        return values
    kept = y != IGNORED
    return values.where(kept, 0.0).mean(-1) * (y.shape[-1] / kept.sum(-1).clamp_min(1).double())
