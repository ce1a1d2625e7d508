"""The first membership inference attack, with an attack model for each class.

Shokri, Stronati, Song, Shmatikov: Membership Inference Attacks Against Machine Learning Models, 2017.

Shadows answer for samples that they learned from and samples that they did not. From these answers, for
each true class, a classifier learns to tell the one from the other, and is then asked about the answers
of the audited model. The paper leaves the classifier open; here it is a logistic regression on the
logarithms of the probabilities, to which members and others count as much in all, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unknot.audit.roc import Scores
from unknot.audit.shadows import Shadows
from unknot.core.errors import ConfigError

FLOOR = 1e-12  # beneath it, a logarithm says more of rounding than of the model
STEPS = 25


@dataclass(frozen=True)
class Shokri:
    """The chance of membership by the class's attack model; above ½ it says "member"."""

    decay: float = 1e-3
    cut: ClassVar[float] = 0.5
    name: ClassVar[str] = "Shokri"

    def score(self, answers: Tensor, shadows: Shadows) -> Scores:
        return self.score_others(answers, shadows.points.y, shadows)

    def score_others(self, answers: Tensor, labels: Tensor, shadows: Shadows) -> Scores:
        """Of samples with these labels, which need not be the points that the shadows answer for."""
        y, own = labels.numpy(), shadows.points.y.numpy()
        if y.ndim > 1:
            raise ConfigError("Shokri's attack is for samples with one label each, not for text")
        asked, known = (np.log(a.numpy().clip(FLOOR)) for a in (answers, shadows.answers))
        scores = np.zeros(len(y))
        for label in np.unique(y):
            mine, theirs = y == label, own == label
            if not theirs.any():
                raise ConfigError(f"no shadow answers for a sample of class {label}: give them more samples")
            seen = known[:, theirs].reshape(-1, known.shape[-1])
            scores[mine] = self._attack(seen, shadows.inside[:, theirs].reshape(-1), asked[mine])
        return scores

    def _attack(self, seen: Scores, inside: NDArray[np.bool_], asked: Scores) -> Scores:
        centre, scale = seen.mean(0), seen.std(0).clip(1e-9)
        weights = logistic(_with_one((seen - centre) / scale), inside, self.decay)
        return _sigmoid(_with_one((asked - centre) / scale) @ weights)


def logistic(x: Scores, inside: NDArray[np.bool_], decay: float) -> Scores:
    """A logistic regression's weights, by Newton's steps; `decay` holds all but the last, the constant.

    Both sides have the same weight in all.
    """
    weights = np.zeros(x.shape[1])
    share = inside.mean()
    counts = np.where(inside, 0.5 / share, 0.5 / (1 - share)) if 0 < share < 1 else np.ones(len(x))
    ridge = decay * len(x) * np.append(np.ones(x.shape[1] - 1), 1e-6)
    for _ in range(STEPS):
        p = _sigmoid(x @ weights)
        slope = x.T @ (counts * (p - inside)) + ridge * weights
        bend = (x * (counts * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        weights = weights - np.linalg.solve(bend, slope)
    return weights


def _with_one(x: Scores) -> Scores:
    return np.hstack([x, np.ones((len(x), 1))])


def _sigmoid(x: Scores) -> Scores:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))
