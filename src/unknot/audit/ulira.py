"""The likelihood ratio attack on unlearning (U-LiRA).

Hayes, Shumailov, Triantafillou, Khalifa, Papernot: Inexact Unlearning Needs More Careful Evaluations to
Avoid a False Sense of Privacy, 2024.

An attacker who knows the method knows what it leaves behind. So the game is between models that learned
from the erased samples and then *unlearned* them by the method itself, and models *retrained* without
them (in ``unknot audit``: controls, which ran the same method without ever having them). For each sample,
the confidence φ = log(p / (1 − p)) is about normal over the ones and over the others, and a model with φ*
scores

    log N(φ*; μ_unlearned, σ²_unlearned) − log N(φ*; μ_retrained, σ²_retrained).

With fewer than 64 models, 32 of each kind, the samples share a variance, as in LiRA. Confidences are
``[models, samples]``, of the erased samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from unknot.audit.epsilon import Bound, Counts, lower_bound
from unknot.audit.lira import FEW, Normals
from unknot.audit.roc import Curve, Scores, beaten
from unknot.core.errors import ConfigError
from unknot.core.keys import Key

LEAST = 8
MOST = 200_000  # draws that are gone through one by one


def ulira_scores(seen: Scores, unlearned: Scores, retrained: Scores) -> Scores:
    """How much likelier a model's confidences are if it unlearned the samples than if it never saw them."""
    _check(unlearned, retrained, least=2)
    pooled = _few(unlearned, retrained)
    ours, theirs = (Normals.of(known, np.ones(known.shape, bool), pooled) for known in (unlearned, retrained))
    return ours.log(seen) - theirs.log(seen)


@dataclass(frozen=True, eq=False)
class ToldApart:
    """Unlearned models among retrained ones, by models that had no part in learning what to look for."""

    curve: Curve
    """The unlearned models are the members."""
    p: float
    """How often chance alone tells them apart so well, one way or the other."""
    bound: Bound
    """On ε, a model being one trial."""
    level: float

    @property
    def outcome(self) -> str:
        return "told apart" if self.p <= self.level else "not told apart"

    def to_dict(self) -> dict[str, object]:
        return {
            "unlearned": len(self.curve.members),
            "retrained": len(self.curve.others),
            "auc": self.curve.auc().to_dict(),
            "p": self.p,
            "outcome": self.outcome,
            "epsilon": self.bound.to_dict(),
        }


def check_models(models: int) -> None:
    """Asked before a long run rather than after it."""
    if models < LEAST:
        raise ConfigError(f"U-LiRA needs at least {LEAST} models of each kind, not {models}")


def told_apart(unlearned: Scores, retrained: Scores, level: float = 0.05) -> ToldApart:
    """Whether unlearned models can be told from retrained ones, by confidences ``[models, samples]``.

    The first half of both tells what to look for in each sample; the second half is scored, each model by
    the mean over the samples. So the scores are independent of the fits, and if the method leaves nothing,
    all ways to say who of the second half was unlearned are equally likely: the rank sum's p is exact. What
    counts for the bound is a score above 0, where unlearned is the likelier.
    """
    _check(unlearned, retrained, least=4)
    first, second = zip(*(np.array_split(part, 2) for part in (unlearned, retrained)), strict=True)
    found = [np.array([ulira_scores(model, *first).mean() for model in part]) for part in second]
    hits, alarms = (int((scores > 0).sum()) for scores in found)
    counts = Counts(hits, len(found[0]), alarms, len(found[1]))
    return ToldApart(Curve.of(*found), _by_chance(*found), lower_bound(counts, level=1 - level), level)


def _by_chance(mine: Scores, theirs: Scores) -> float:
    """The rank sum's p, two-sided, over all ways to draw who was unlearned, or many of them."""
    both = np.concatenate([mine, theirs])
    ranks = len(both) * beaten(both, both)  # what is tied shares a rank
    few, centre = len(mine), len(mine) * len(both) / 2
    odd = abs(ranks[:few].sum() - centre) - 1e-9
    if comb(len(ranks), few) <= MOST:
        sums = np.fromiter(map(sum, combinations(ranks.tolist(), few)), dtype=np.float64)
        return float((np.abs(sums - centre) >= odd).mean())
    draws = Key.root(0).child("rank sum").generator().permuted(np.tile(ranks, (MOST // 10, 1)), axis=1)
    sums = draws[:, :few].sum(1)
    return float((1 + (np.abs(sums - centre) >= odd).sum()) / (1 + len(sums)))


def _few(unlearned: Scores, retrained: Scores) -> bool:
    return 2 * min(len(unlearned), len(retrained)) < FEW


def _check(unlearned: Scores, retrained: Scores, least: int) -> None:
    for name, known in (("unlearned", unlearned), ("retrained", retrained)):
        if len(known) < least:
            raise ConfigError(f"U-LiRA needs at least {least} {name} models, not {len(known)}")
    if unlearned.shape[1:] != retrained.shape[1:] or not unlearned.shape[1]:
        raise ConfigError("U-LiRA asks unlearned and retrained models about the same samples, one or more")
