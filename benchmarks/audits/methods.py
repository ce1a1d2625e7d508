"""What each method leaves, exact or not, and what an audit says of those who did not forget, or too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

import unknot
from benchmarks.audits.truth import by_heart, outcome, share_of
from unknot.audit.roc import beaten
from unknot.audit.trace import adjusted
from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.keys import Key
from unknot.core.weights import Layout, Weights
from unknot.experiments import Experiment
from unknot.experiments.case import Case, Thorough
from unknot.experiments.counterparts import Counterpart, erasures_of, train, without
from unknot.federation import Federation
from unknot.unlearn import METHODS

SERVED, CONTROLS, WRONGLY = 5, 19, 40
BEFORE, AFTER, SAMPLES = 20, 30, 200
ASKED = Thorough()
WRONG = ("nothing done", "fine-tuned", "random labels")


@dataclass(frozen=True)
class Task:
    method: str
    draw: int


def tasks(draws: int) -> list[Task]:
    return [Task(method, draw) for draw in range(draws) for method in (*METHODS, "wrong")]


def measure(task: Task) -> dict[str, Any]:
    """Outcomes for several served models of one draw of the data, against the same controls."""
    seed = 100_000 * (task.draw + 1)
    experiment = by_heart("rfs" if task.method == "wrong" else task.method, seed, SAMPLES, BEFORE, AFTER)
    case = Case.of(experiment, ASKED)
    wanted = [
        *(Counterpart(seed + 1 + i) for i in range(CONTROLS)),
        *(Counterpart(seed + 10_001 + i, case.erased) for i in range(3)),
    ]
    served = {task.method: [Counterpart(seed + 20_001 + i, whole=True) for i in range(SERVED)]}
    if task.method == "wrong":
        served = {"nothing done": [Counterpart(seed + 20_001 + i, case.erased) for i in range(SERVED)]}
    (name, mine), *_ = served.items()
    models = train(experiment, case.data, case.engine, [*wanted, *mine])
    asked: dict[str, list[Model]] = {name: models[len(wanted) :]}
    if task.method == "wrong":
        asked |= _badly(experiment, case)
    controls, kept = (
        case.heard(part, 1).sure for part in (models[:CONTROLS], models[CONTROLS : len(wanted)])
    )
    found = {}
    for name, some in asked.items():
        seen = case.heard(some, 1).sure
        z = adjusted(seen, controls, case.classes, case.members)
        found[name] = {
            "outcomes": [outcome(case, one, controls, kept) for one in seen],
            "auc": [float(beaten(row[case.members :], row[: case.members]).mean()) for row in z],
        }
    return {"draw": task.draw, "found": found}


def _badly(experiment: Experiment, case: Case) -> dict[str, list[Model]]:
    """Trained with everybody; then, for "fine-tuned", on without the client, or, for "random labels",
    with random labels in its place."""
    own = case.data.lent()
    less = without(own, erasures_of(experiment, own))
    found: dict[str, list[Model]] = {"fine-tuned": [], "random labels": []}
    for i in range(SERVED):
        seed = experiment.seed + 30_001 + i
        first = quiet(experiment, own, seed, case)
        begun = first.run(BEFORE).model
        found["fine-tuned"].append(_on(quiet(experiment, less, seed + 1000, case, begun), AFTER))
        taught, wrong = first.run(AFTER).model, _mislabelled(own, seed)
        found["random labels"].append(_on(quiet(experiment, wrong, seed + 1000, case, taught), WRONGLY))
    return found


def quiet(
    experiment: Experiment, data: FederatedData, seed: int, case: Case, start: Model | None = None
) -> Federation:
    """Plain federated averaging, from weights whose past is nobody's business here."""
    bare = None if start is None else Weights(*_parts(start))
    return unknot.simulate(
        "mlp",
        data,
        "rfs",
        experiment.setup.recipe,
        initial=bare,
        seed=seed,
        engine=case.engine,
        evaluate_every=0,
    )


def _parts(model: Model) -> tuple[Tensor, Layout]:
    assert isinstance(model, Weights)
    return model.vector, model.layout


def _on(fed: Federation, rounds: int) -> Model:
    fed.run(rounds)
    return fed.model


def _mislabelled(data: FederatedData, seed: int) -> FederatedData:
    """The same federation, but the erased client's labels are drawn from the wrong ones."""
    shard, train = data[2], data.train
    y = train.y.clone()
    step = Key.root(seed).child("labels").generator().integers(1, train.classes, len(shard))
    y[shard.rows] = (y[shard.rows] + y.new_tensor(step)) % train.classes
    return data.replaced(train=Samples(train.x, y, train.classes))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each method, how often which outcome, and the AUC of its samples' z."""
    out: dict[str, Any] = {}
    for name in (*METHODS, *WRONG):
        mine = [row["found"][name] for row in rows if name in row["found"]]
        if mine:
            aucs = [value for row in mine for value in row["auc"]]
            out[name] = {**share_of([row["outcomes"] for row in mine]), "auc": float(np.median(aucs))}
    return {"served": out}
