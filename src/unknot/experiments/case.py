"""What an audit asks about, and of whom: its points, the models it has trained, and what these say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.audit import Shadows, matched
from unknot.audit.membership import ATTACKS, WITHOUT_SHADOWS
from unknot.audit.perplexity import Perplexity, perplexity
from unknot.audit.queries import asked
from unknot.audit.ranks import LEVEL, check_level
from unknot.audit.roc import Scores
from unknot.audit.sensitivity import check_trials, left_in
from unknot.audit.shadows import check_number, halves, joined
from unknot.audit.signals import check_classes, confidence, told, truth
from unknot.audit.trace import Classes
from unknot.audit.ulira import check_models
from unknot.audit.verdict import TRACE, Views
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.samples import IGNORED
from unknot.experiments.config import Experiment
from unknot.experiments.counterparts import APART, KEPT, Counterpart, Rows, erasures_of, parted, some_of
from unknot.experiments.simulate import assemble, data_of

SUREST = 40.0  # of log p/(1 − p): beyond it, it says how a vote was counted or a sum was rounded
KINDS = ("controls", "kept", "left in", "shadows", "unlearned")
ASKED = ("served", "controls", "kept")


@dataclass(frozen=True)
class Thorough:
    """How thorough an audit is: its level, and how many models of which kind are trained for it."""

    level: float = LEVEL
    controls: int = 19
    sensitivity: int = 20
    """Models with a share left in, to tell how small a trace would have been found; 0: it is not told."""
    attacks: tuple[str, ...] = ()
    """Published attacks to make beside the trace, by name: see `unknot.audit.membership.ATTACKS`; "loss",
    "ulira"."""
    shadows: int = 32
    """Shadow models that the published attacks learn from."""
    others: int | None = None
    """How many test samples are asked about, at most; None: as many as the classes allow."""
    queries: int = 1
    """How often each image is asked about, moved by a pixel."""

    def __post_init__(self) -> None:
        check_level(self.controls, self.level)
        names = (*ATTACKS, *WITHOUT_SHADOWS)
        unknown = [name for name in self.attacks if name not in names]
        if unknown:
            known = ", ".join(names)
            raise ConfigError(f"there is no attack {unknown[0]!r}; there are {known}")
        if len(set(self.attacks)) < len(self.attacks):
            raise ConfigError("an attack is named twice")
        check_trials(self.sensitivity)
        if self.published:
            check_number(self.shadows)
        if "ulira" in self.attacks:
            check_models(self.controls)

    @property
    def published(self) -> tuple[str, ...]:
        """Those attacks that learn from shadow models."""
        return tuple(name for name in self.attacks if name in ATTACKS)


@dataclass(frozen=True, eq=False)
class Heard:
    """What models say of the truth of each point, ``[models, points]``."""

    sure: Scores
    """log p/(1 − p)."""
    likely: Scores
    """log p; for text, the mean over the positions."""


@dataclass(frozen=True, eq=False)
class Case:
    """Who is asked about what: the points of an audit, and who held them."""

    data: FederatedData
    """The experiment's, with the others behind the training samples where shadows learn from them."""
    engine: Engine
    seed: int
    erased: Mapping[int, Rows]
    rows: Rows
    """Of the points, in the training samples; the others' are there for shadows only."""
    points: Samples
    members: int
    key: Key

    @staticmethod
    def of(experiment: Experiment, thorough: Thorough) -> Case:
        precision = {"float32": torch.float32, "float64": torch.float64}[experiment.engine.dtype]
        data = data_of(experiment).cast(precision)
        check_classes(data.train, "an audit goes by how sure a model is of the true class")
        engine = assemble(experiment, data).engine
        key = Key.root(experiment.seed).child("audit")
        _, erased = parted(data, erasures_of(experiment, data))
        gone = np.unique(np.concatenate(list(erased.values())))
        theirs = _nobodys(data, erased)
        members, others = data.train.subset(gone), data.test.subset(theirs)
        mine, alike = _paired(members, others, thorough.others, key)
        rows = np.concatenate([gone[mine], len(data.train) + np.arange(len(alike))])
        points = joined(members.subset(mine), others.subset(alike))
        if thorough.published:
            data = data.replaced(train=joined(data.train, others.subset(alike)))
        asked(points.subset(np.arange(1)), thorough.queries)  # refused now rather than after the training
        if "shokri" in thorough.attacks and points.y.dim() > 1:
            raise ConfigError("Shokri's attack is for samples with one label each, not for text")
        return Case(data, engine, experiment.seed, erased, rows, points, len(mine), key)

    def check(self, served: Model) -> None:
        """Whether this model can be asked: found out before a long run rather than after it."""
        try:
            self.engine.predict(served, self.points.subset(np.arange(1)))
        except ValueError as error:
            raise ConfigError(f"the model to be audited is not the experiment's: {error}") from None

    @property
    def classes(self) -> Classes:
        y = self.points.y.numpy()
        return y.astype(np.int64) if y.ndim == 1 else np.zeros(len(y), dtype=np.int64)

    def inside(self, shadows: int) -> NDArray[np.bool_]:
        """Which points each shadow holds: about as many as were erased, so it is as large as a kept model."""
        times = round(shadows * self.members / len(self.points))
        others = len(self.points) - self.members
        if not 2 <= times <= shadows - 2:
            enough = 2 * math.ceil(len(self.points) / min(self.members, others))
            raise ConfigError(
                f"{shadows} shadow models are too few for {self.members} members and {others} others: "
                f"take {enough} or more, or make them more alike in number"
            )
        return halves(shadows, len(self.points), self.key.child("shadows"), times)

    def wanted(self, thorough: Thorough) -> tuple[list[tuple[str, Counterpart]], dict[str, list[int]]]:
        """Every counterpart with its kind, and the seeds of each kind."""
        shares = left_in(thorough.sensitivity)
        left = [some_of(self.erased, share, self.key.child("share", i)) for i, share in enumerate(shares)]
        client = next(client for client, rows in self.erased.items() if len(rows))
        held = self.inside(thorough.shadows) if thorough.published else np.empty((0, 0), dtype=np.bool_)
        unlearned = thorough.controls if "ulira" in thorough.attacks else 0
        within: dict[str, list[Mapping[int, Rows]]] = {
            "controls": [{}] * thorough.controls,
            "kept": [self.erased] * KEPT,
            "left in": list(left),
            "shadows": [{client: self.rows[mine]} for mine in held],
            "unlearned": [{}] * unlearned,
        }
        seeds = {
            kind: [self.seed + APART * place + 1 + i for i in range(len(within[kind]))]
            for place, kind in enumerate(KINDS)
        }
        return [
            (kind, Counterpart(seed, left, whole=kind == "unlearned"))
            for kind in KINDS
            for seed, left in zip(seeds[kind], within[kind], strict=True)
        ], {kind: found for kind, found in seeds.items() if found}

    def shares(self, thorough: Thorough) -> list[float]:
        """What part of the erased samples each model with a share left in really has: of few, one is much."""
        total = sum(map(len, self.erased.values()))
        drawn = (some_of(self.erased, share, self.key) for share in left_in(thorough.sensitivity))
        return [sum(map(len, rows.values())) / total for rows in drawn]

    def heard(self, models: Sequence[Model], queries: int) -> Heard:
        """What models say of the truth, the mean over the queries."""
        sure, likely = np.empty((2, queries, len(models), len(self.points)))
        for which, q in enumerate(asked(self.points, queries)):
            answers, points = told(self.engine, models, q, _smoothed)
            for i, said in enumerate(answers):
                sure[which, i] = confidence(said, points.y).numpy()
                likely[which, i] = truth(said, points.y).log().numpy()
        if not np.isfinite(sure).all():
            raise ConfigError("a model gives no numbers for answers: it has diverged, and cannot be audited")
        return Heard(sure.mean(axis=0).clip(-SUREST, SUREST), likely.mean(axis=0))

    def perplexity(self, heard: Mapping[str, Heard], level: float) -> Perplexity | None:
        """Of texts: how well the erased ones are predicted; None where there is one label each."""
        if self.points.y.dim() == 1:
            return None
        tokens = (self.points.y != IGNORED).sum(1).numpy()
        served, controls, kept = (heard[kind].likely for kind in ASKED)
        return perplexity(served, controls, kept, tokens, self.members, level)

    def views(
        self, heard: Mapping[str, Heard], models: Mapping[str, list[Model]], thorough: Thorough
    ) -> dict[str, Views]:
        """What the trace and every attack say of the points, for every model."""
        mine, controls, kept, left = (heard[kind].sure for kind in (*ASKED, "left in"))
        views = {TRACE: Views(mine[0], controls, kept, left)}
        if "loss" in thorough.attacks:
            mine, controls, kept, left = (heard[kind].likely for kind in (*ASKED, "left in"))
            views["loss"] = Views(mine[0], controls, kept, left, referred=True)
        if not thorough.published:
            return views
        lists = [models[kind] for kind in (*ASKED, "left in")]
        scores: dict[str, list[list[Scores]]] = {name: [[] for _ in lists] for name in thorough.published}
        inside = self.inside(thorough.shadows)
        queries = asked(self.points, thorough.queries)
        answers = [told(self.engine, models["shadows"], q) for q in queries]
        known = [Shadows(points, self.members, inside, torch.stack(said)) for said, points in answers]
        for place, some in enumerate(lists):
            for said in zip(*(told(self.engine, some, q)[0] for q in queries), strict=True):
                for name in thorough.published:
                    each = [ATTACKS[name].score(a, k) for a, k in zip(said, known, strict=True)]
                    scores[name][place].append(np.mean(each, axis=0))
        for name in thorough.published:
            mine, controls, kept, left = (
                np.array(part).reshape(-1, len(self.points)) for part in scores[name]
            )
            views[ATTACKS[name].name] = Views(mine[0], controls, kept, left, ATTACKS[name].cut)
        return views


def _smoothed(answers: Tensor, model: Model) -> Tensor:
    """Shares of votes, as if one vote more had been split among the classes: unanimous is not certain."""
    if not isinstance(model, Ensemble) or model.vote != "majority":
        return answers
    votes = len(model.parts)
    return (votes * answers + 1 / answers.shape[-1]) / (votes + 1)


def _nobodys(data: FederatedData, erased: Mapping[int, Rows]) -> Rows:
    """The test rows that do not belong to a client that is erased."""
    if data.test_owner is None:
        return np.arange(len(data.test))
    return np.flatnonzero(~np.isin(data.test_owner, list(erased)))


def _paired(members: Samples, others: Samples, most: int | None, key: Key) -> tuple[Rows, Rows]:
    if most is not None and not 0 < most <= len(others):
        raise ConfigError(f"there are {len(others)} test samples: an audit cannot take {most} of them")
    most = len(others) if most is None else most
    if members.y.dim() > 1:
        return np.arange(len(members)), key.child("others").smallest(np.arange(len(others)), most)
    return matched(members, others, key, most)
