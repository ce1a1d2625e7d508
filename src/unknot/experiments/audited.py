"""An experiment put to the question: is what it erased still visible in what it serves?

Four trainings: the experiment itself; the *control*, which never had the erased data; the *kept* model,
of which nobody asked to forget anything; and the shadow models that the attacks learn from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unknot.audit import (
    Divergence,
    Estimate,
    Finding,
    Shadows,
    Trigger,
    answers_to,
    divergence,
    marked,
    membership,
    train_shadows,
)
from unknot.audit.shadows import check_number
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.recipe import Recipe
from unknot.core.requests import Erase
from unknot.experiments.config import Experiment
from unknot.experiments.simulate import Change, prepare, prepare_without, run
from unknot.federation import Federation

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Audit:
    """What the attacks found, and on how much they stand."""

    experiment: str
    erased: str
    members: int
    others: int
    shadows: int
    steps: int
    same: bool
    """Whether the served model is the control, bit for bit."""
    findings: tuple[Finding, ...]
    divergence: dict[str, Divergence]
    """From the control: of the kept model, of the served one, of the control itself."""
    seconds: dict[str, float]
    """What was spent on each training, by the clock on the wall."""

    @property
    def flagged(self) -> bool:
        return any(finding.flagged for finding in self.findings)

    @property
    def verdict(self) -> str:
        """ "flagged" by an attack; "passed" where one could have seen it; "no power" where none could."""
        if self.flagged:
            return "flagged"
        return "passed" if any(finding.sees for finding in self.findings) else "no power"

    def to_dict(self) -> dict[str, object]:
        plain = (
            "experiment",
            "erased",
            "members",
            "others",
            "shadows",
            "steps",
            "same",
            "verdict",
            "seconds",
        )
        return {
            **{name: getattr(self, name) for name in plain},
            "divergence": {name: found.to_dict() for name, found in self.divergence.items()},
            "findings": [finding.to_dict() for finding in self.findings],
        }


def audit(
    experiment: Experiment,
    shadows: int = 64,
    others: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Audit:
    """Run an experiment with an erasure, and attack what it serves.

    The members under test are the erased samples. The non-members are test samples: `others` of them,
    by default at most as many as there are training samples, so that a shadow, which learns from half of
    them, does not know far more than the model. `tell` is told what is being trained.
    """
    erasures = erasures_of(experiment)
    check_number(shadows)
    seconds: dict[str, float] = {}
    fed = prepare(experiment)
    data, key = fed.data, Key.root(experiment.seed).child("audit")
    rest, erased = parted(data, erasures)
    sizes = [len(data[client]) for client in data]
    tested = _some(len(data.test), min(len(data.test), sum(sizes)) if others is None else others, key)
    models, rounds = _three(experiment, seconds, tell)
    kept, served, control = models["kept"], models["served"], models["control"]
    members = data.train.subset(erased)
    with _timed("shadows", seconds, tell):
        known, steps = shadows_of(
            fed, data.train.subset(rest), members, data.test.subset(tested), rounds, shadows, key
        )
    return Audit(
        experiment=experiment.name,
        erased=", ".join(str(target) for request in erasures for target in request.targets),
        members=len(erased),
        others=len(tested),
        shadows=shadows,
        steps=steps,
        same=served.equal(control),
        findings=tuple(membership(fed.engine, known, served, control, kept, key)),
        divergence={
            name: divergence(fed.engine, model, control, members, data.test) for name, model in models.items()
        },
        seconds=seconds,
    )


@dataclass(frozen=True, eq=False)
class Backdoor:
    """Which of three models answer to a mark that only the erased clients' samples bore."""

    experiment: str
    erased: str
    target: int
    answers: dict[str, Estimate]
    """Of marked test samples, the share that is taken for the target: kept, served, control."""

    @property
    def verdict(self) -> str:
        """As an audit's: "no power" where not even the kept model answers."""
        bound = self.answers["control"].high
        if self.answers["served"].value > bound:
            return "flagged"
        return "passed" if self.answers["kept"].value > bound else "no power"

    def to_dict(self) -> dict[str, object]:
        return {
            **{name: getattr(self, name) for name in ("experiment", "erased", "target", "verdict")},
            "answers": {name: found.to_dict() for name, found in self.answers.items()},
        }


def backdoor(
    experiment: Experiment, trigger: Trigger | None = None, tell: Callable[[str], None] = lambda text: None
) -> Backdoor:
    """Mark all samples of the erased clients, run the experiment, and see who still answers to the mark."""
    trigger = trigger or Trigger()
    targets = [target for request in erasures_of(experiment) for target in request.targets]
    if any(target.samples is not None for target in targets):
        raise ConfigError("a mark is on all of a client's samples: erase clients, not some of their samples")
    clients = {target.client for target in targets}

    def change(data: FederatedData) -> FederatedData:
        return marked(data, clients, trigger)

    fed = prepare(experiment, change=change)
    models, _ = _three(experiment, {}, tell, change)
    return Backdoor(
        experiment=experiment.name,
        erased=", ".join(str(target) for target in targets),
        target=trigger.target,
        answers={
            name: answers_to(fed.engine, model, fed.data.test, trigger) for name, model in models.items()
        },
    )


def erasures_of(experiment: Experiment) -> list[Erase]:
    erasures = [request for request in experiment.requests if isinstance(request, Erase)]
    if not erasures or len(erasures) < len(experiment.requests):
        raise ConfigError("an audit needs an experiment with erase requests, and with no others")
    return erasures


def _three(
    experiment: Experiment,
    seconds: dict[str, float],
    tell: Callable[[str], None],
    change: Change = lambda data: data,
) -> tuple[dict[str, Model], int]:
    """What never forgot, what is served, and what never knew; and for how many rounds each was trained."""
    with _timed("served", seconds, tell):
        history = run(experiment, change=change)
    if history.model is None or history.unserved:
        raise ConfigError("the run ended before the erasure: give it more rounds, or ask earlier")
    rounds = history.rounds[-1].version
    with _timed("control", seconds, tell):
        control = _trained(prepare_without(experiment, change), rounds)
    with _timed("kept", seconds, tell):
        kept = _trained(prepare(experiment, change=change), rounds)
    return {"kept": kept, "served": history.model, "control": control}, rounds


def shadows_of(
    fed: Federation, rest: Samples, members: Samples, others: Samples, rounds: int, number: int, key: Key
) -> tuple[Shadows, int]:
    """Shadows of a federation that has not begun, as if trained for so many rounds; the steps of each."""
    steps = rounds * fed.recipe.steps(int(np.median([len(fed.data[client]) for client in fed.data])))
    recipe = central(fed.recipe, steps, len(rest) + (len(members) + len(others)) // 2)
    key = key.child("shadows")
    return train_shadows(fed.engine, fed.initial, rest, members, others, recipe, number, key), steps


def central(recipe: Recipe, steps: int, samples: int) -> Recipe:
    """The same training in one place: as many steps as one client takes in all rounds.

    Then each sample weighs as much as it does in the federation, where a client reads it more often and
    counts for its share only. A proximal term holds on to the last round's model; here there is none.
    """
    epochs = -(-steps // -(-samples // recipe.batch_size))
    return replace(recipe, epochs=epochs, max_steps=steps, proximal=0.0)


def parted(data: FederatedData, erasures: Sequence[Erase]) -> tuple[Rows, Rows]:
    """The rows that remain, and those that are erased; what another client holds as well is no secret."""
    rest = data.rehearsal()
    gone = [np.empty(0, dtype=np.int64)]
    for target in (target for request in erasures for target in request.targets):
        shard = rest[target.client]
        gone.append(shard.rows if target.samples is None else shard.rows_of(np.sort(target.samples)))
        rest.erase(target.client, target.samples)
    if not len(rest):
        raise ConfigError("an audit needs a client that stays; here everybody is erased")
    left = np.concatenate([rest[client].rows for client in rest])
    erased = np.setdiff1d(np.concatenate(gone), left)
    if not len(erased):
        raise ConfigError("nothing to audit: no sample is erased that nobody else holds")
    return left, erased


def _trained(fed: Federation, rounds: int) -> Model:
    fed.run(rounds)
    return fed.model


def _some(samples: int, wanted: int, key: Key) -> Rows:
    if not 0 < wanted <= samples:
        raise ConfigError(f"there are {samples} test samples: an audit cannot take {wanted} of them")
    return key.child("others").smallest(np.arange(samples), wanted)


@contextmanager
def _timed(what: str, seconds: dict[str, float], tell: Callable[[str], None]) -> Iterator[None]:
    tell(f"training: {what}")
    started = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - started
