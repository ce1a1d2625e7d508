"""How small a trace would have been found: the share of the erased data that a verdict can be trusted to see.

Models are trained with a share of the erased data left in, several for each of a few shares, and each is
put in the served model's place. How far a model stands out grows with its share; around that growth it
varies from seed to seed, and with the samples that were left in. From both follows how often a share would
have been found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from unknot.audit.roc import Scores
from unknot.core.errors import ConfigError

SHARES = (0.05, 0.1, 0.2, 0.4)
LEAST = 8
"""Models: two for each share."""
OFTEN = 0.8
NORMAL = NormalDist()


@dataclass(frozen=True)
class Trial:
    """A model with a share of the erased data left in, put to the test."""

    share: float
    deviation: float
    critical: float
    """The deviation beyond which it is found."""

    @property
    def found(self) -> bool:
        return self.deviation > self.critical


@dataclass(frozen=True)
class Sensitivity:
    """What would have been found, by models with a known share left in."""

    share: float | None
    """The smallest share that is found in 8 of 10 cases, on the safe side by one standard error of what the
    models tell; None if not even all of it is."""
    power: dict[float, float]
    """For each share that was tried, how often it would be found, by the fit through all of them."""
    found: dict[float, tuple[int, int]]
    """For each share, how many models were found, of how many."""

    def to_dict(self) -> dict[str, object]:
        return {
            "share": self.share,
            "often": OFTEN,
            "power": {f"{share:g}": value for share, value in self.power.items()},
            "found": {f"{share:g}": list(value) for share, value in self.found.items()},
        }


def check_trials(models: int) -> None:
    """Asked before a long run rather than after it."""
    if models and models < LEAST:
        raise ConfigError(f"the sensitivity takes at least {LEAST} models, or 0 to do without; not {models}")


def left_in(models: int) -> list[float]:
    """The shares that so many models are given, each share as often as the others, larger ones first."""
    return [SHARES[-1 - i % len(SHARES)] for i in range(models)]


def sensitivity(trials: Sequence[Trial]) -> Sensitivity:
    """From trials of two or more shares, one of them 1: all of the erased data left in.

    Margins are on a scale (asinh) on which deviations vary by about as much at every share. Their means may
    not fall as the share grows (pool adjacent violators), and lie on straight lines between the shares that
    were tried, over the share's logarithm; the spread is common to all.
    """
    shares = sorted({trial.share for trial in trials})
    groups = [[trial for trial in trials if trial.share == share] for share in shares]
    margins = [np.array([math.asinh(t.deviation) - math.asinh(t.critical) for t in g]) for g in groups]
    sizes = np.array([len(group) for group in groups])
    means = _never_falling(np.array([m.mean() for m in margins]), sizes)
    squares = sum(float(((m - m.mean()) ** 2).sum()) for m in margins)
    spread = math.sqrt(squares / max(1, int(sizes.sum()) - len(sizes))) or 1e-9
    chances = [NORMAL.cdf(mean / spread) for mean in means]
    return Sensitivity(
        share=_reached(np.log(shares), means / spread - 1 / np.sqrt(sizes)),
        power=dict(zip(shares, chances, strict=True)),
        found={s: (sum(t.found for t in g), len(g)) for s, g in zip(shares, groups, strict=True)},
    )


def _reached(logs: Scores, margins: Scores) -> float | None:
    """The smallest share whose margin, in deviations, is met in 8 of 10 cases."""
    needed = NORMAL.inv_cdf(OFTEN)
    if margins[-1] < needed:
        return None
    if margins[0] >= needed:
        return float(np.exp(logs[0]))
    place = int(np.argmax(margins >= needed))
    part = (needed - margins[place - 1]) / (margins[place] - margins[place - 1])
    return float(np.exp(logs[place - 1] + part * (logs[place] - logs[place - 1])))


def _never_falling(values: Scores, weights: NDArray[np.int64]) -> Scores:
    """The closest sequence that does not fall: neighbours that do are pooled."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, i), (b, w, j) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, i + j)]
    return np.concatenate([np.full(count, value) for value, _, count in blocks])
