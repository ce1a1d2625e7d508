"""The robust membership inference attack (RMIA).

Zarifzadeh, Liu, Shokri: Low-Cost High-Power Membership Inference Attacks, 2024.

A sample x is compared with samples z of the population: is it more of a surprise to see x explained so
well than to see z? With Pr(x|θ) the probability of the true class,

    LR(x, z) = (Pr(x|θ) / Pr(x)) / (Pr(z|θ) / Pr(z)),    score(x) = Pr_z[LR(x, z) ≥ γ].

Pr(x) is the mean over models with and without x: ½ (Pr_in(x) + Pr_out(x)). Offline there are only
models without it, and Pr(x) ≈ ½ ((1 + a) Pr_out(x) + (1 − a)). The population is the points that are
no members.

A tie, LR(x, z) = γ, counts half. The score is then a function of the ratio Pr(x|θ) / Pr(x) alone, be x a
member or of the population, and with γ = 1 it orders all points as their ratios do: to be compared with
itself is to a point's credit no more than to its discredit. (Left out of its own comparison, a point
of the population would have one z less to divide by than a member with the same ratio.)

γ is 1 by default. With 2, a sample must be explained twice as well as z, which one that is easy anyhow
cannot be: most scores are then tied at 0, and with few samples the figures become noisy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unknot.audit.roc import Scores, beaten
from unknot.audit.shadows import Shadows
from unknot.audit.signals import truth
from unknot.core.errors import ConfigError


@dataclass(frozen=True)
class RMIA:
    """How many of the population a sample dominates; `a` makes it the offline attack."""

    gamma: float = 1.0
    a: float | None = None
    cut: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.gamma >= 1:
            raise ConfigError(f"RMIA: gamma must be at least 1, not {self.gamma}")
        if self.a is not None and not 0 <= self.a <= 1:
            raise ConfigError(f"RMIA: a must be in [0, 1], not {self.a}")

    @property
    def name(self) -> str:
        return "RMIA" if self.a is None else "RMIA offline"

    def score(self, answers: Tensor, shadows: Shadows) -> Scores:
        y = shadows.points.y
        known = truth(shadows.answers, y).numpy()
        outside = _mean(known, ~shadows.inside)
        if self.a is None:
            usual = (_mean(known, shadows.inside) + outside) / 2
        else:
            usual = ((1 + self.a) * outside + (1 - self.a)) / 2
        return self.dominated(truth(answers, y).numpy() / usual, shadows.population)

    def dominated(self, ratios: Scores, population: NDArray[np.bool_]) -> Scores:
        """The share of the population whose ratio each point's exceeds γ times, a tie counting half."""
        return beaten(ratios[population], ratios / self.gamma)


def _mean(known: Scores, chosen: NDArray[np.bool_]) -> Scores:
    return np.asarray(np.where(chosen, known, 0.0).sum(0) / chosen.sum(0))
