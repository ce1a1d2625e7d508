"""The statistics that a verdict rests on: are a model's answers likelier if some of the data is in, or worse?

Fixed beforehand, and the same for every model. For each point, φ = log p/(1 − p) of the true class:

1. **Adjusted.** What *reference* models, which never had the erased data, say of a point on average tells
   how hard it is. By the points that nobody learned from, φ of the model in question is regressed on that
   average, its square and the class; the rest, in units of the point's spread over the reference models and
   of the model's own over those points, is z. So a model that is surer or less sure throughout, as one that
   trained longer is, looks like the others.
2. **Still in?** As in LiRA, the likelihood ratio of a member is L = exp(d z − d²/2), where d is by how much
   z rises in models that kept the erased data. The *trace* is the mean of log(1 − s + s L) over the members:
   how much likelier the answers are if a share s of them is still in. Too high, and the data still shows.
3. **Altogether higher, or lower?** The *rank* is the share of other points that a member's z exceeds, on
   average (an AUC): ½ where members are like any others. Too high, and all of the data still shows a little;
   too low, and it was forgotten more than never knowing it gives.

s is `SHARE`; of what the kept models show, d is the part `DAMPED`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unknot.audit.roc import Scores, beaten

SHARE = 0.05
DAMPED = 0.7  # of d: the tails are heavier than the normal's, and at full strength a few odd points decide
FARTHEST = 30.0  # of log L: beyond it, exp overflows sooner than it says anything
HALF = 0.6745  # of a normal variable, as often within as beyond so many deviations

Classes = NDArray[np.int64]


def adjusted(seen: Scores, reference: Scores, classes: Classes, members: int) -> Scores:
    """z of models ``[..., n]`` by reference models ``[r, n]``; the first points are the members."""
    usual, variance = reference.mean(0), reference.var(0, ddof=1)
    # A variance from so few models is uncertain: half of it is everybody's.
    spread = np.sqrt((variance + variance.mean()) / 2).clip(1e-9)
    kinds = np.unique(classes[members:])
    centre, scale = usual[members:].mean(), usual[members:].std() or 1.0
    hard = (usual - centre) / scale
    terms = np.stack([hard, hard**2, *(classes == kind for kind in kinds)], axis=-1)
    fit = np.linalg.pinv(terms[members:])
    z = (seen - seen[..., members:] @ fit.T @ terms.T) / spread
    own = np.median(np.abs(z[..., members:]), axis=-1, keepdims=True) / HALF
    return np.asarray(z / np.maximum(own, 1e-9))


def among(models: Scores, classes: Classes, members: int) -> Scores:
    """z of each model ``[m, n]``, the others being its reference models."""
    each = [adjusted(seen, np.delete(models, i, 0), classes, members) for i, seen in enumerate(models)]
    return np.array(each)


def rise(kept: Scores, reference: Scores, classes: Classes, members: int) -> Scores:
    """d: by how much z of each member rises in models ``[k, n]`` that kept the erased data."""
    z = adjusted(kept, reference, classes, members)[..., :members]
    return np.asarray(DAMPED * z.mean(0).clip(0))


def trace(z: Scores, d: Scores) -> float:
    """How much likelier z ``[members]`` of a model is if a share of the members is still in."""
    ratio = np.exp(np.clip(d * z - d**2 / 2, -FARTHEST, FARTHEST))
    return float(np.log1p(SHARE * (ratio - 1)).mean())


def traces(models: Scores, kept: Scores, classes: Classes, members: int) -> tuple[Scores, Scores]:
    """The trace and the rank of each model ``[m, n]``, the others being its reference models.

    All are treated alike, whichever of them is tested and which are controls: a place among them is exact.
    """
    found = np.empty((2, len(models)))
    for i, model in enumerate(models):
        reference = np.delete(models, i, axis=0)
        z = adjusted(model, reference, classes, members)
        still = trace(z[:members], rise(kept, reference, classes, members))
        found[:, i] = still, beaten(z[members:], z[:members]).mean()
    return found[0], found[1]


def contrasts(scores: Scores, classes: Classes, members: int) -> Scores:
    """For an attack whose scores ``[m, n]`` are given: by how much members' exceed those of other points.

    Adjusted as above, with what the attack says of the other models for a reference; one score in a
    thousand is not to decide, so none counts beyond four deviations.
    """
    return np.asarray(among(scores, classes, members)[:, :members].clip(-4, 4).mean(-1))
