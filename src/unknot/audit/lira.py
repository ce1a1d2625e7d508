"""The likelihood ratio attack (LiRA).

Carlini, Chien, Nasr, Song, Terzis, Tramèr: Membership Inference Attacks From First Principles, 2022.

For each sample, the confidence φ = log(p / (1 − p)) of the true class is about normal over models, with
one mean if the sample was learned from and another if not. With φ* of the audited model,

- online:   Λ = N(φ*; μ_in, σ²_in) / N(φ*; μ_out, σ²_out), the score is log Λ;
- offline:  Λ = Pr[Z ≤ φ*], Z ~ N(μ_out, σ²_out); the score is (φ* − μ_out) / σ_out, which orders
  samples as Λ does and does not round to 1.

With fewer than 64 shadows a sample's own variance is too uncertain, and one variance is used for all
samples. The paper takes it over all confidences; here it is pooled within samples, so that the spread
between easy and hard ones does not blur it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unknot.audit.roc import Scores
from unknot.audit.shadows import Shadows
from unknot.audit.signals import confidence

FEW = 64
LEAST = 1e-6  # a deviation; below it, a difference is rounding


@dataclass(frozen=True, eq=False)
class Normals:
    """What models say of each sample, as a normal variable."""

    mean: Scores
    spread: Scores

    @staticmethod
    def of(known: Scores, chosen: NDArray[np.bool_], pooled: bool) -> Normals:
        """Fitted for each sample to the models chosen for it, both ``[models, samples]``."""
        count = chosen.sum(0)
        mean = np.where(chosen, known, 0.0).sum(0) / count
        squares = np.where(chosen, (known - mean) ** 2, 0.0).sum(0)
        free = count - 1
        variance = np.full(len(mean), squares.sum() / free.sum()) if pooled else squares / free
        return Normals(mean, np.sqrt(variance).clip(LEAST))

    def above(self, seen: Scores) -> Scores:
        """By how many deviations `seen` exceeds the mean."""
        return np.asarray((seen - self.mean) / self.spread)

    def log(self, seen: Scores) -> Scores:
        """The logarithm of the density, but for a constant."""
        return np.asarray(-(self.above(seen) ** 2) / 2 - np.log(self.spread))


@dataclass(frozen=True)
class LiRA:
    """How much likelier a confidence is for a member than for another."""

    offline: bool = False
    cut: ClassVar[None] = None

    @property
    def name(self) -> str:
        return "LiRA offline" if self.offline else "LiRA"

    def score(self, answers: Tensor, shadows: Shadows) -> Scores:
        y = shadows.points.y
        seen = confidence(answers, y).numpy()
        known = confidence(shadows.answers, y).numpy()
        pooled = len(shadows) < FEW
        without = Normals.of(known, ~shadows.inside, pooled)
        if self.offline:
            return without.above(seen)
        return Normals.of(known, shadows.inside, pooled).log(seen) - without.log(seen)
