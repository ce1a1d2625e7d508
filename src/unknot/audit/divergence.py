"""How far a model is from the one that was retrained without the erased data."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor

from unknot.audit.signals import TINY
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
    known, usual = (_right(engine.predict(m, erased), erased) for m in (model, control))
    mine, theirs = (engine.predict(m, test).clamp_min(TINY) for m in (model, control))
    distance = None
    if not isinstance(model, Ensemble) and not isinstance(control, Ensemble):
        distance = float((model.vector.double() - control.vector.double()).norm())
    return Divergence(
        erased=known,
        forgetting_error=known - usual,
        test=_right(mine, test),
        distance=distance,
        kl=float((theirs * (theirs.log() - mine.log())).sum(-1).mean()),
        agreement=float((mine.argmax(-1) == theirs.argmax(-1)).double().mean()),
    )


def _right(answers: Tensor, samples: Samples) -> float:
    """The share of targets that are named right, whatever metrics a run goes by."""
    right = answers.argmax(-1) == samples.y
    return float(right[samples.y != IGNORED].double().mean())
