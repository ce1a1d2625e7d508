"""What an attack reads off a model's answer: how sure it is of the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, predict_all
from unknot.core.samples import IGNORED, Samples

TINY = 1e-300  # a probability that double precision would round to 0
ROOM = 1 << 26
"""Probabilities that are held at a time, of texts: a vocabulary may be large."""


def check_classes(samples: Samples, why: str) -> None:
    """Refuse other targets than classes: nobody has asked such questions of labels or values yet."""
    if samples.kind != "classes":
        raise ConfigError(
            f"{why}, and these targets are {samples.kind}. Whether erased data has a part in what is served "
            "is shown for any task by unknot.audit.interference"
        )


def told(
    engine: Engine,
    models: Sequence[Model],
    samples: Samples,
    soften: Callable[[Tensor, Model], Tensor] = lambda answers, model: answers,
) -> tuple[list[Tensor], Samples]:
    """What each model says of samples, and the samples with the targets to read it by.

    Of a text's token that is two probabilities, ``[n, t, 2]``: of the right one, which the targets then call
    0, and of all others together. No attack here needs more, and whole vocabularies need much room.
    """
    if samples.y.ndim == 1:
        said = zip(predict_all(engine, models, samples), models, strict=True)
        return [soften(answers, model) for answers, model in said], samples
    found: list[list[Tensor]] = [[] for _ in models]
    for piece in pieces(samples):
        at_once = max(1, ROOM // (piece.y.numel() * samples.classes))
        for first in range(0, len(models), at_once):
            some = models[first : first + at_once]
            for place, answers in enumerate(predict_all(engine, some, piece), first):
                found[place].append(_against_the_rest(soften(answers, models[place]), piece.y))
    y = torch.where(samples.y == IGNORED, IGNORED, 0)
    return [torch.cat(parts) for parts in found], replace(samples, y=y, classes=2)


def pieces(samples: Samples) -> Iterator[Samples]:
    """As many texts at a time as there is room for the answers to; what has one target each, in one piece."""
    numbers = samples.classes * samples.y[:1].numel()
    rows = len(samples) if samples.y.ndim == 1 else max(1, ROOM // max(1, numbers))
    if rows >= len(samples):
        yield samples
        return
    for first in range(0, len(samples), rows):
        yield samples.subset(np.arange(first, min(first + rows, len(samples))))


def _against_the_rest(answers: Tensor, y: Tensor) -> Tensor:
    index = y.long().clamp_min(0).unsqueeze(-1)
    rest = answers.scatter(-1, index, 0.0).sum(-1, keepdim=True)
    return torch.cat([answers.gather(-1, index), rest], -1)


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
