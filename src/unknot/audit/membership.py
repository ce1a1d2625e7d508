"""Is the erased data still visible in what is served? Attacks on it, beside models that tell what to expect.

Figures alone say little: samples can look like members though nobody learned from them. So the same
attack is made on a *control*, a model retrained without the erased data, and on the *kept* model, which
never forgot. The served model is flagged if it stands out from the control; and where the kept model
does not, the attack would have seen nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Tensor

from unknot.audit.lira import LiRA
from unknot.audit.rmia import RMIA
from unknot.audit.roc import RATES, Curve, Estimate, Scores
from unknot.audit.shadows import Shadows
from unknot.audit.shokri import Shokri
from unknot.core.ensemble import Model
from unknot.core.jobs import Engine
from unknot.core.keys import Key


class Attack(Protocol):
    """Gives every point a score: the higher, the more likely the model learned from it."""

    @property
    def name(self) -> str: ...

    @property
    def cut(self) -> float | None:
        """The score above which the attack itself says "member", if it does."""
        ...

    def score(self, answers: Tensor, shadows: Shadows) -> Scores: ...


ATTACKS: tuple[Attack, ...] = (LiRA(), LiRA(offline=True), RMIA(), RMIA(a=0.3), Shokri())


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
    def of(curve: Curve, cut: float | None, key: Key) -> Figures:
        rates = {rate: curve.tpr(rate) for rate in RATES}
        return Figures(curve, curve.auc(key), rates, {} if cut is None else curve.decided(cut, key))

    def above(self, control: Figures) -> tuple[str, ...]:
        """Which figures stand out: the AUC, the TPR at 1 % of false alarms, above the control's interval."""
        pairs = {"AUC": (self.auc, control.auc), "TPR at 1 %": (self.tpr[0.01], control.tpr[0.01])}
        return tuple(
            name
            for name, (mine, bound) in pairs.items()
            if mine is not None and bound is not None and mine.value > bound.high
        )

    def to_dict(self) -> dict[str, object]:
        false, true = self.curve.points()
        return {
            "auc": self.auc.to_dict(),
            "tpr": {f"{rate:g}": None if e is None else e.to_dict() for rate, e in self.tpr.items()},
            **{name: estimate.to_dict() for name, estimate in self.decided.items()},
            "roc": {"fpr": np.round(false, 6).tolist(), "tpr": np.round(true, 6).tolist()},
            "scores": {"members": self.curve.members.tolist(), "others": self.curve.others.tolist()},
        }


@dataclass(frozen=True, eq=False)
class Finding:
    """One attack on the served model, on the control, and on the model that never forgot."""

    attack: str
    served: Figures
    control: Figures
    kept: Figures

    @property
    def flagged(self) -> tuple[str, ...]:
        """In which figures the served model stands out from the control."""
        return self.served.above(self.control)

    @property
    def sees(self) -> bool:
        """Whether the attack finds the erased data where it surely is."""
        return bool(self.kept.above(self.control))

    @property
    def verdict(self) -> str:
        if self.flagged:
            return "flagged"
        return "passed" if self.sees else "no power"

    def to_dict(self) -> dict[str, object]:
        models = {name: getattr(self, name).to_dict() for name in ("kept", "served", "control")}
        return {"attack": self.attack, "verdict": self.verdict, "flagged": list(self.flagged), **models}


def membership(
    engine: Engine,
    shadows: Shadows,
    served: Model,
    control: Model,
    kept: Model,
    key: Key,
    attacks: Sequence[Attack] | None = None,
) -> list[Finding]:
    """Attack three models with the same shadows, points and resamples."""
    if attacks is None:
        one_label = shadows.points.y.dim() == 1
        attacks = [attack for attack in ATTACKS if one_label or not isinstance(attack, Shokri)]
    answers = [engine.predict(model, shadows.points) for model in (served, control, kept)]
    return [
        Finding(attack.name, *(attacked(attack, answer, shadows, key) for answer in answers))
        for attack in attacks
    ]


def attacked(attack: Attack, answers: Tensor, shadows: Shadows, key: Key) -> Figures:
    """One attack on a model that answers so."""
    scores = attack.score(answers, shadows)
    curve = Curve.of(scores[: shadows.members], scores[shadows.members :])
    return Figures.of(curve, attack.cut, key)
