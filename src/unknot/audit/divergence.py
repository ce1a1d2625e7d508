"""How far a model is from the one that was retrained without the erased data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from unknot.audit.signals import TINY, pieces
from unknot.core.data import Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Engine
from unknot.core.samples import IGNORED


@dataclass(frozen=True)
class Divergence:
    """A model beside the control; all of it is 0, 0, 1 for a model that is the control."""

    erased: float
    """Accuracy on the erased data."""
    forgetting_error: float
    """By how much that is off the control's: above 0, too much is remembered; below 0, too much is lost."""
    test: float
    """Accuracy on the test data."""
    distance: float | None
    """‖w − w_control‖₂; None where several models answer together."""
    kl: float
    """The mean of KL(control ‖ model) over the answers to the test data, in nats."""
    agreement: float
    """On how much of the test data the two name the same class."""

    def to_dict(self) -> dict[str, float | None]:
        return asdict(self)


def divergence(engine: Engine, model: Model, control: Model, erased: Samples, test: Samples) -> Divergence:
    """Compare what two models know of the erased data and say of the test data."""
    known, usual = (
        float(torch.cat([_right(engine.predict(m, part), part) for part in pieces(erased)]).mean())
        for m in (model, control)
    )
    right, kl, agreed = (torch.cat(each) for each in zip(*_beside(engine, model, control, test), strict=True))
    distance = None
    if not isinstance(model, Ensemble) and not isinstance(control, Ensemble):
        distance = float((model.vector.double() - control.vector.double()).norm())
    return Divergence(
        erased=known,
        forgetting_error=known - usual,
        test=float(right.mean()),
        distance=distance,
        kl=float(kl.mean()),
        agreement=float(agreed.mean()),
    )


def _beside(engine: Engine, model: Model, control: Model, test: Samples) -> Iterator[tuple[Tensor, ...]]:
    """For every target: whether the model is right, the divergence, whether both name the same class."""
    for part in pieces(test):
        mine, theirs = (engine.predict(m, part).clamp_min(TINY) for m in (model, control))
        counts = part.y != IGNORED
        kl = (theirs * (theirs.log() - mine.log())).sum(-1)
        agreed = (mine.argmax(-1) == theirs.argmax(-1)).double()
        yield _right(mine, part), kl[counts], agreed[counts]


def _right(answers: Tensor, samples: Samples) -> Tensor:
    """Of every target, whether it is named right, whatever metrics a run goes by."""
    right = answers.argmax(-1) == samples.y
    return right[samples.y != IGNORED].double()
