"""Shadow models: what the answers look like with a sample in the training set, and without it.

In ``unknot audit`` a shadow is a run of its own, which holds some of the points under test, drawn at
random, in place of the erased data. Here are also shadows that are trained in one place, as one cohort of
jobs, for attacks that know nothing of those points: each learns from a random half of a pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine, Job, predict_all
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import Recipe
from unknot.core.weights import Weights


@dataclass(frozen=True, eq=False)
class Shadows:
    """Points, which of them each shadow was trained on, and what each says of all of them."""

    points: Samples
    """The members under test, then samples of the same kind that nobody learned from."""
    members: int
    """How many of the points are members."""
    inside: NDArray[np.bool_]
    """``[shadows, points]``."""
    answers: Tensor
    """Probabilities, ``[shadows, points, classes]``, or with an axis of positions before the classes."""

    def __len__(self) -> int:
        return len(self.inside)

    @property
    def diverged(self) -> bool:
        """Whether one of them has no answers to learn from."""
        return not bool(torch.isfinite(self.answers).all())

    @property
    def population(self) -> NDArray[np.bool_]:
        """The points that are no members."""
        return np.arange(len(self.points)) >= self.members


def check_number(shadows: int) -> None:
    """Asked before a long run rather than after it."""
    if shadows < 4 or shadows % 2:
        raise ConfigError(f"shadow models come in pairs, and at least 4 of them; not {shadows}")


def halves(shadows: int, points: int, key: Key, inside: int | None = None) -> NDArray[np.bool_]:
    """Which points each shadow learns from: each point is in half of the shadows, or in `inside` of them."""
    check_number(shadows)
    draws = key.child("halves").words(np.arange(shadows * points)).reshape(shadows, points)
    return draws.argsort(axis=0).argsort(axis=0) < (shadows // 2 if inside is None else inside)


def train_shadows(
    engine: Engine,
    start: Weights,
    rest: Samples,
    members: Samples,
    others: Samples,
    recipe: Recipe,
    shadows: int,
    key: Key,
) -> Shadows:
    """Train shadows centrally by `recipe`, from `start`, on `rest` and their half of the points."""
    points = joined(members, others)
    inside = halves(shadows, len(points), key)
    train = joined(rest, points)
    common = np.arange(len(rest))
    shards = {
        k: Shard.of(np.concatenate([common, len(rest) + np.flatnonzero(mine)]))
        for k, mine in enumerate(inside)
    }
    data = FederatedData(train, shards, test=points, name="shadows")
    jobs = [Job(Unit(k), start, key.child("train", k), recipe, node="shadow") for k in shards]
    updates = engine.train(jobs, data)
    answers = torch.stack(predict_all(engine, [update.weights for update in updates], points))
    return Shadows(points, len(members), inside, answers)


def matched(
    members: Samples, others: Samples, key: Key, most: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of both, with as many of each class among the one as among the other, or a multiple of it.

    Otherwise an attack need only tell classes apart: a client's samples may be of one class, and the
    others of all. Where there are fewer others of a class than members, fewer members are taken. `most`
    are the others that there may be in all: by default as many as members; if it is less, fewer members
    are taken.
    """
    labels = [part.y.numpy() for part in (members, others)]
    if any(label.ndim > 1 for label in labels):
        raise ConfigError("samples are matched by their class: that is for one label each, not for text")
    if not len(members):
        raise ConfigError("there are no members to match others with")
    some = np.arange(len(members))
    if most is not None and most < len(members):
        some = key.child("matched", "some").smallest(some, most)
    kinds = np.unique(labels[0][some])
    pairs = [(some[labels[0][some] == kind], np.flatnonzero(labels[1] == kind)) for kind in kinds]
    times = 1 if most is None else max(1, min(most // len(some), *(len(b) // len(a) for a, b in pairs)))
    found: tuple[list[NDArray[np.int64]], ...] = ([], [])
    for kind, rows in zip(kinds.tolist(), pairs, strict=True):
        wanted = len(rows[0]) if times > 1 else min(map(len, rows))
        for side, mine, name, count in zip(found, rows, ("members", "others"), (1, times), strict=True):
            side.append(key.child("matched", name, kind).smallest(mine, count * wanted))
    mine, theirs = (np.concatenate(side) for side in found)
    if not len(mine):
        raise ConfigError("there are no others of the members' classes")
    return mine, theirs


def joined(*parts: Samples) -> Samples:
    """Samples of one kind, one after the other."""
    return parts[0].extended(*parts[1:])
