"""Published attacks on a model's answers, and what their scores come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Tensor

from unknot.audit.lira import LiRA
from unknot.audit.rmia import RMIA
from unknot.audit.roc import RATES, Curve, Estimate, Scores
from unknot.audit.shadows import Shadows
from unknot.audit.shokri import Shokri


class Attack(Protocol):
    """Gives every point a score: the higher, the more likely the model learned from it."""

    @property
    def name(self) -> str: ...

    @property
    def cut(self) -> float | None:
        """The score above which the attack itself says "member", if it does."""
        ...

    def score(self, answers: Tensor, shadows: Shadows) -> Scores: ...


ATTACKS: dict[str, Attack] = {
    "lira": LiRA(),
    "lira-offline": LiRA(offline=True),
    "rmia": RMIA(),
    "rmia-offline": RMIA(a=0.3),
    "shokri": Shokri(),
}
"""By the names that ``unknot audit --attack`` knows; all of them learn from shadow models."""
WITHOUT_SHADOWS = ("loss", "ulira")
"""Further names: attacks that learn from the controls, and from models that the method itself unlearned."""


@dataclass(frozen=True, eq=False)
class Figures:
    """One attack on one model: the scores, and what they come to."""

    curve: Curve
    auc: Estimate
    tpr: dict[float, Estimate | None]
    """At each false positive rate; None where there are too few others for it to mean anything."""
    decided: dict[str, Estimate] = field(default_factory=dict)
    """Precision, recall and F1, where the attack itself says who is a member."""

    @staticmethod
    def of(scores: Scores, members: int, cut: float | None = None) -> Figures:
        curve = Curve.of(scores[:members], scores[members:])
        rates = {rate: curve.tpr(rate) for rate in RATES}
        return Figures(curve, curve.auc(), rates, {} if cut is None else curve.decided(cut))

    def to_dict(self) -> dict[str, object]:
        false, true = self.curve.points()
        return {
            "auc": self.auc.to_dict(),
            "tpr": {f"{rate:g}": None if e is None else e.to_dict() for rate, e in self.tpr.items()},
            **{name: estimate.to_dict() for name, estimate in self.decided.items()},
            "roc": {"fpr": np.round(false, 6).tolist(), "tpr": np.round(true, 6).tolist()},
            "scores": {"members": self.curve.members.tolist(), "others": self.curve.others.tolist()},
        }
