"""How far the runs of a reproduction expose what they erased: Shokri's attack, before and after.

Three models are asked about the same samples: the one *before* the request, the one *after* the
unlearning, and a *control* that plain FedAvg trained for as long without the erased data. As in
Shokri's paper, and unlike in ``unknot audit``, the shadows know nothing of the samples under attack:
they learn from what remains. What runs have in common, the control and the shadows, is trained once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unknot.audit import Curve, Figures, Shadows, Shokri, matched
from unknot.audit.shadows import check_number, joined
from unknot.core.data import Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.experiments.audited import erasures_of, parted, shadows_of
from unknot.experiments.config import Experiment, Length
from unknot.experiments.simulate import go, prepare, prepare_without
from unknot.federation import Event, History, Round, Served
from unknot.select import AtRandom
from unknot.unlearn import RFS

FEDAVG, UNIFORM = RFS(), AtRandom()  # until something is to be forgotten, retraining is plain FedAvg


@dataclass(frozen=True)
class Exposure:
    """What ``[audit]`` of a reproduction says: how many shadow models, and of how many samples each.

    Without a `control` it is cheaper by one training up to the request, and says less.
    """

    shadows: int = 8
    samples: int = 2000
    control: bool = True

    def __post_init__(self) -> None:
        check_number(self.shadows)
        if self.samples < 1:
            raise ConfigError(f"audit.samples must be at least 1, not {self.samples}")


@dataclass(frozen=True, eq=False)
class Known:
    """What an attacker knows, whatever the method that forgets: and a model with nothing to forget."""

    points: Samples
    """The members, then as many others."""
    shadows: Shadows
    control: Model | None

    def attack(self, answers: Tensor, key: Key) -> Figures:
        """On a model that answers so for the points."""
        attack, members = Shokri(), len(self.points) // 2
        scores = attack.score_others(answers, self.points.y, self.shadows)
        return Figures.of(Curve.of(scores[:members], scores[members:]), attack.cut, key)


class Exposed:
    """Runs experiments and attacks them."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Experiment, int, Exposure], Known] | None = None

    def run(
        self, experiment: Experiment, exposure: Exposure, observers: Sequence[Callable[[Event], None]] = ()
    ) -> tuple[History, dict[str, float]]:
        """A run's history, and what the attack came to: ``f1_before``, ``auc_after``..."""
        erasures_of(experiment)
        before: list[Model] = []
        rounds: list[Round] = []
        asked: list[int] = []

        def look(event: Event) -> None:
            """Hold the last model before the first request: after it, the federation refuses to serve it."""
            if isinstance(event, Served):
                # How long was trained: by the furthest lane, whichever one the request concerns.
                asked.append(max((record.round for record in rounds), default=0))
            elif not asked:
                before[:] = [fed.model]
                rounds.append(event)

        fed = prepare(experiment, [*observers, look])
        history = go(fed, experiment)
        if history.model is None or history.unserved or not before:
            raise ConfigError("an audited run trains before its request, and serves it: see its rounds")
        started = time.perf_counter()
        known = self._known(experiment, asked[0], exposure)
        models = {"before": before[0], "after": history.model, "control": known.control}
        answers = {
            name: fed.engine.predict(model, known.points)
            for name, model in models.items()
            if model is not None
        }
        key = Key.root(experiment.seed).child("audit")
        figures = {
            name: known.attack(answer, key)
            for name, answer in answers.items()
            # A model that has diverged has no answers to attack, a shadow none to attack with.
            if torch.isfinite(answer).all() and not known.shadows.diverged
        }
        return history, {
            **described(figures),
            "asked": float(_asked(experiment, rounds)),
            "audit_seconds": time.perf_counter() - started,
        }

    def _known(self, experiment: Experiment, rounds: int, exposure: Exposure) -> Known:
        """Of the last run, if this one differs from it in its method or its selector alone."""
        mine = (plain(experiment), rounds, exposure)
        if self._last is None or self._last[0] != mine:
            self._last = mine, known_of(*mine)
        return self._last[1]


def plain(experiment: Experiment) -> Experiment:
    """The same federation under FedAvg, with all of the set's test samples to draw others from."""
    return Experiment(
        seed=experiment.seed,
        data=replace(experiment.data, test="all"),
        model=experiment.model,
        recipe=experiment.recipe,
        length=Length(rounds=1, evaluate_every=0, evaluate_on=("test",)),
        pace=experiment.pace,
        aggregate=experiment.aggregate,
        clock=experiment.clock,
        method=FEDAVG,
        select=UNIFORM,
        engine=experiment.engine,
        requests=experiment.requests,
    )


def known_of(experiment: Experiment, rounds: int, exposure: Exposure) -> Known:
    """Train the shadows and the control.

    Members are the erased samples that nobody else holds. The others are as many test samples, with the
    same number of each class: where the set has too few, fewer members are attacked. Each shadow learns
    from a random half of a pool of the samples that remain.
    """
    fed = prepare(experiment)
    data, key = fed.data, Key.root(experiment.seed).child("audit")
    rest, erased = parted(data, erasures_of(experiment))
    members = data.train.subset(erased)
    mine, theirs = matched(members, data.test, key)
    pool = data.train.subset(key.child("pool").smallest(rest, 2 * exposure.samples))
    none = pool.subset(np.empty(0, dtype=np.int64))
    shadows, _ = shadows_of(fed, none, pool, none, rounds, exposure.shadows, key)
    points = joined(members.subset(mine), data.test.subset(theirs))
    return Known(points, shadows, _control(experiment, rounds) if exposure.control else None)


def _control(experiment: Experiment, rounds: int) -> Model:
    fed = prepare_without(experiment)
    fed.run(rounds)
    return fed.model


def _asked(experiment: Experiment, rounds: Sequence[Round]) -> int:
    """How often the erased clients took part before the request: who never did left nothing to find.

    `rounds` are those that had ended by then. Neither their number nor their time tells: slower clusters
    count later, and of rounds at the time of a request, those that it waited for came before it.
    """
    gone = {target.client for request in erasures_of(experiment) for target in request.targets}
    return sum(len(gone & set(record.clients)) for record in rounds)


def described(figures: dict[str, Figures]) -> dict[str, float]:
    """The figures by name, such as ``f1_after``.

    `sees` is 1 where the attack tells the model before the request from the control, by its AUC or its
    TPR at 1 %, and `flagged` where it still does after the unlearning.
    """
    found: dict[str, float] = {}
    for name, of in figures.items():
        found |= {f"f1_{name}": of.decided["f1"].value, f"auc_{name}": of.auc.value}
        if (rate := of.tpr[0.01]) is not None:
            found[f"tpr_{name}"] = rate.value
    if "control" in figures:
        for word, name in (("sees", "before"), ("flagged", "after")):
            if name in figures:
                found[word] = float(bool(figures[name].above(figures["control"])))
    return found
