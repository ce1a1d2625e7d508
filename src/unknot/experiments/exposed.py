"""How far the runs of a reproduction expose what they erased: Shokri's attack, before and after.

Two models are asked about the same samples: the one *before* the request and the one *after* the
unlearning. Each is put to the rank test of ``unknot audit``, on this attack's scores: where does it stand
among *controls*, which plain FedAvg trained for as many rounds without the erased data? As in Shokri's
paper, and unlike in ``unknot audit``, the shadows know nothing of the samples under attack: they learn from
what remains. What runs have in common, the controls and the shadows, is trained once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unknot.audit import Figures, Shadows, Shokri, matched, rank_test, train_shadows
from unknot.audit.ranks import LEVEL, check_level
from unknot.audit.roc import Scores
from unknot.audit.shadows import check_number, joined
from unknot.audit.trace import Classes, contrasts
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError, UnknotError
from unknot.core.jobs import Engine
from unknot.core.keys import Key
from unknot.core.requests import Moment
from unknot.core.selection import AtRandom
from unknot.core.training import Recipe
from unknot.experiments.config import Experiment
from unknot.experiments.counterparts import NONE, check_requests, erasures_of, parted
from unknot.experiments.simulate import assemble, going, prepare
from unknot.federation import Event, Federation, History, Length, Observer, Round, Served
from unknot.federation.cohort import Running, run_alone, run_together
from unknot.unlearn.rfs import RFS

FEDAVG, UNIFORM = RFS(), AtRandom()  # until something is to be forgotten, retraining is plain FedAvg


@dataclass(frozen=True)
class Exposure:
    """What ``[audit]`` of a reproduction says: how many shadow models, and of how many samples each.

    `controls` is how many models a run's own are ranked among, at this `level`. Without any (0) it is
    cheaper by far, and there is no verdict.
    """

    shadows: int = 8
    samples: int = 2000
    controls: int = 19
    level: float = LEVEL

    def __post_init__(self) -> None:
        check_number(self.shadows)
        if self.samples < 1:
            raise ConfigError(f"audit.samples must be at least 1, not {self.samples}")
        if self.controls:
            check_level(self.controls, self.level)


@dataclass(frozen=True)
class Watched:
    """A run that has ended, and the two models of it that are attacked, with the rounds each had."""

    fed: Federation
    history: History
    models: Mapping[str, Model]
    lengths: Mapping[str, int]
    rounds: Sequence[Round]
    """Those before the first request."""


def watching(
    experiment: Experiment,
    observers: Sequence[Observer] = (),
    *,
    data: FederatedData | None = None,
    engine: Engine | None = None,
) -> Running[Watched]:
    """Run an experiment that is to be attacked; where there is some, on this data with this engine."""
    check_requests(experiment)
    models: dict[str, Model] = {}
    lengths: dict[str, int] = {}
    rounds: list[Round] = []
    asked: list[Served] = []

    def look(event: Event) -> None:
        """Hold the last model before the first request: after it, the federation refuses to serve it."""
        if isinstance(event, Served):
            asked.append(event)
        elif not asked:
            models["before"], lengths["before"] = fed.model, _length(fed)
            rounds.append(event)

    seen = [*observers, look]
    fed = prepare(experiment, seen) if data is None else assemble(experiment, data, seen, engine=engine)
    history = yield from going(fed, experiment)
    if history.model is None or history.unserved or not rounds:
        raise ConfigError("an audited run trains before its request, and serves it: see its rounds")
    if len(rounds) < asked[0].place:
        raise _unseen(history)
    models["after"], lengths["after"] = history.model, _length(fed)
    return Watched(fed, history, models, lengths, rounds)


class Exposed:
    """Attacks runs."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Experiment, Exposure], Known] | None = None

    def run(
        self, experiment: Experiment, exposure: Exposure, observers: Sequence[Observer] = ()
    ) -> tuple[History, dict[str, float]]:
        """A run's history, and what the attack came to."""
        watched = run_alone(watching(experiment, observers))
        return watched.history, self.attack(watched, experiment, exposure)

    def attack(self, watched: Watched, experiment: Experiment, exposure: Exposure) -> dict[str, float]:
        """What the attack on a run comes to: ``f1_before``, ``auc_after``..."""
        started = time.perf_counter()
        known = self._known(experiment, exposure)
        engine = watched.fed.engine
        answers = {name: engine.predict(model, known.points) for name, model in watched.models.items()}
        found = known.attack(answers, watched.lengths)
        return {
            **found,
            "asked": float(_asked(experiment, watched.fed.data, watched.rounds)),
            "audit_seconds": time.perf_counter() - started,
        }

    def _known(self, experiment: Experiment, exposure: Exposure) -> Known:
        """Of the last run, if this one differs from it in its method or its selector alone."""
        mine = plain(experiment), exposure
        if self._last is None or self._last[0] != mine:
            self._last = mine, Known(*mine)
        return self._last[1]


def plain(experiment: Experiment) -> Experiment:
    """The same federation under FedAvg, with all of the set's test samples to draw others from."""
    return Experiment(
        data=replace(experiment.data, test="all"),
        model=experiment.model,
        setup=replace(
            experiment.setup, select=UNIFORM, select_when="always", evaluate_every=0, evaluate_on=("test",)
        ),
        method=FEDAVG,
        length=Length(rounds=1),
        engine=experiment.engine,
        requests=experiment.requests,
    )


class Known:
    """What an attacker knows, whatever the method that forgets; and models with nothing to forget.

    Members are the erased samples that nobody else holds. The others are as many test samples, with the
    same number of each class: where the set has too few, fewer members are attacked. `points` are the
    members, then the others.
    """

    def __init__(self, experiment: Experiment, exposure: Exposure) -> None:
        self._experiment, self._exposure = experiment, exposure
        self._fed = prepare(experiment)
        self._key = Key.root(experiment.seed).child("audit")
        data = self._fed.data
        rest, erased = parted(data, erasures_of(experiment, data))
        members = data.train.subset(np.unique(np.concatenate(list(erased.values()))))
        mine, theirs = matched(members, data.test, self._key)
        self.points = joined(members.subset(mine), data.test.subset(theirs))
        self.members = len(mine)
        self._pool = data.train.subset(self._key.child("pool").smallest(rest, 2 * exposure.samples))
        self._shadows: dict[int, Shadows] = {}
        self._controls: list[Control] = []

    def attack(self, answers: Mapping[str, Tensor], lengths: Mapping[str, int]) -> dict[str, float]:
        """What it comes to on models that answer so for the points after so many rounds, by name."""
        shadows = self.shadows(lengths["before"])
        if shadows.diverged:  # it has no answers to attack with
            return {}
        controls = dict(zip(lengths, self.controls(*lengths.values()), strict=True))
        return described(
            {name: self.scores(said[None], shadows)[0] for name, said in answers.items() if _finite(said)},
            {name: self.scores(said, shadows) for name, said in controls.items() if _finite(said)},
            self.points.y.numpy().astype(np.int64),
            self.members,
            self._exposure.level,
        )

    def shadows(self, rounds: int) -> Shadows:
        """As if trained for so many rounds, each on a random half of a pool of the samples that remain."""
        if rounds not in self._shadows:
            fed, none = self._fed, self._pool.subset(NONE)
            recipe, held = fed.given.recipe, [len(fed.data[client]) for client in fed.data]
            steps = rounds * recipe.steps(int(np.median(held)))
            self._shadows[rounds] = train_shadows(
                fed.engine,
                fed.initial,
                none,
                self._pool,
                none,
                central(recipe, steps, len(self._pool) // 2),
                self._exposure.shadows,
                self._key.child("shadows"),
            )
        return self._shadows[rounds]

    def controls(self, *lengths: int) -> list[Tensor]:
        """What the controls say of the points after so many rounds, ``[controls, points, classes]``."""
        longest = max(lengths)
        if not self._controls:
            data, first = self._fed.data.lent(), self._experiment.seed + 1
            self._controls = [
                Control(self._experiment, data, self.points, seed, self._fed.engine)
                for seed in range(first, first + self._exposure.controls)
            ]
        run_together([control.train(longest) for control in self._controls])
        none = torch.empty(0)
        return [
            torch.stack([control.answers[length] for control in self._controls]) if self._controls else none
            for length in lengths
        ]

    def scores(self, answers: Tensor, shadows: Shadows) -> Scores:
        """Of several models at once: what the attack learns from is the same for all."""
        count = len(answers)
        labels = self.points.y.repeat(count)
        return Shokri().score_others(answers.flatten(0, 1), labels, shadows).reshape(count, -1)


class Control:
    """A federation that trains without the erased data, and what it says of the points after every round.

    The data is erased before the first round: so there may be fewer clients than are asked in a round. A
    line of a reproduction may want more rounds than the one before: then it goes on from where it is.
    """

    def __init__(
        self, experiment: Experiment, data: FederatedData, points: Samples, seed: int, engine: Engine
    ) -> None:
        self.answers: list[Tensor] = []
        self._points = points
        self._requests = [replace(request, at=Moment(round=0)) for request in erasures_of(experiment, data)]
        self._fed = assemble(experiment, data, [self._look], seed=seed, engine=engine)
        self._ask()

    def train(self, rounds: int) -> Running[None]:
        """Until it has had so many rounds."""
        if (more := rounds + 1 - len(self.answers)) > 0:
            history = yield from self._fed.running(more, requests=self._requests)
            self._requests = []
            if history.set_aside_observers:
                raise _unseen(history)

    def _look(self, event: Event) -> None:
        if isinstance(event, Round):
            self._ask()

    def _ask(self) -> None:
        self.answers.append(self._fed.engine.predict(self._fed.model, self._points))


def _unseen(history: History) -> UnknotError:
    """What an attack looks at it must have seen in every round."""
    return UnknotError(f"the attack missed a round: {'; '.join(map(str, history.set_aside_observers))}")


def central(recipe: Recipe, steps: int, samples: int) -> Recipe:
    """The same training in one place: as many steps as one client takes in all rounds.

    Then each sample weighs as much as it does in the federation, where a client reads it more often and
    counts for its share only. A proximal term holds on to the last round's model; here there is none.
    """
    epochs = -(-steps // -(-samples // recipe.batch_size))
    return replace(recipe, epochs=epochs, max_steps=steps, proximal=0.0)


def described(
    scores: Mapping[str, Scores],
    controls: Mapping[str, Scores],
    classes: Classes,
    members: int,
    level: float = LEVEL,
) -> dict[str, float]:
    """The figures by name, such as ``f1_after``, and how the model before and the one after stand the test.

    `scores` ``[points]`` are of these two, `controls` ``[controls, points]`` of the controls of the same
    length. `sees` is 1 where the model before the request still shows the data, as it should. Where it
    does, the model after is `flagged` if it still shows the data too, and `over_forgotten` if it stands
    out the other way; where it does not, the attack has no power.
    """
    found: dict[str, float] = {}
    for name, rows in {**{n: s[None] for n, s in scores.items()}, "control": controls.get("after")}.items():
        if rows is not None:
            found |= _figures(name, [Figures.of(row, members, Shokri.cut) for row in rows])
    outcomes: dict[str, str | None] = {}
    for name in (name for name in scores if name in controls):
        values = contrasts(np.vstack([scores[name], controls[name]]), classes, members)
        test = rank_test(values[0], values[1:], level)
        found[f"p_{name}"], outcomes[name] = test.p[0], test.found(0, level)
    if "before" in outcomes:
        sees = outcomes["before"] == "still shows"
        found["sees"] = float(sees)
        if "after" in outcomes:
            found["flagged"] = float(sees and outcomes["after"] == "still shows")
            found["over_forgotten"] = float(sees and outcomes["after"] == "over-forgotten")
    return found


def _figures(name: str, of: Sequence[Figures]) -> dict[str, float]:
    """Of several models: the medians."""
    found = {"f1": [figures.decided["f1"].value for figures in of], "auc": [f.auc.value for f in of]}
    found["tpr"] = [rate.value for figures in of if (rate := figures.tpr[0.01]) is not None]
    return {f"{figure}_{name}": float(np.median(values)) for figure, values in found.items() if values}


def _finite(answers: Tensor) -> bool:
    """Whether there are any, and none of a model that has diverged: that has no answers to attack."""
    return len(answers) > 0 and bool(torch.isfinite(answers).all())


def _length(fed: Federation) -> int:
    """For how many rounds what is served was trained: since it began again, where it did.

    Where there are lanes, that of the fastest.
    """
    return max(lane.version for lane in fed.lanes.values())


def _asked(experiment: Experiment, data: FederatedData, rounds: Sequence[Round]) -> int:
    """How often the erased clients took part before the request: who never did left nothing to find.

    `rounds` are those that had ended by then. Neither their number nor their time tells: slower clusters
    count later, and of rounds at the time of a request, those that it waited for came before it.
    """
    gone = {target.client for request in erasures_of(experiment, data) for target in request.targets}
    return sum(len(gone & set(record.clients)) for record in rounds)
