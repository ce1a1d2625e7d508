"""A loss and metrics by name, or of one's own, from Python and from a file: regression, labels, text."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import unknot
from exactness import assert_as_if_never_there, assert_no_interference
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.loss import BinaryCrossEntropy, CrossEntropy, Huber, OwnLoss
from unknot.core.metrics import R2
from unknot.engine import make_engine
from unknot.experiments import Experiment
from unknot.experiments.scenario import LearningCurve, scenario
from unknot.report.summary import summary
from unknot.unlearn import KNOT, MMT, RFS, SISA, FedCIO

RECIPE = unknot.Recipe(unknot.SGD(0.05), batch_size=8)


def table(kind: str, clients: int = 6, size: int = 20) -> FederatedData:
    """A synthetic table: two values (or labels) that follow from eight columns."""
    draw = Key.root(3).child("table").generator()
    mixed = draw.standard_normal((8, 2)) / 3

    def samples(n: int) -> Samples:
        x = draw.standard_normal((n, 8))
        y = np.tanh(x @ mixed) + 0.05 * draw.standard_normal((n, 2))
        y = torch.from_numpy(y if kind == "values" else (y > 0).astype(float))
        return Samples(torch.from_numpy(x).float(), y, 2, kind)

    shards = {k: Shard.of(range(k * size, (k + 1) * size)) for k in range(clients)}
    return FederatedData(samples(clients * size), shards, samples(60), samples(40))


@cache
def ink() -> FederatedData:
    """Real digits, of which the share of dark pixels in the upper half is to be told from the lower."""
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=6, samples=40), validation=100)

    def told(samples: Samples) -> Samples:
        upper, lower = samples.x[:, :, :14], samples.x[:, :, 14:]
        return Samples(lower.flatten(1), upper.mean((1, 2, 3)).double(), 1, "values")

    return data.replaced(train=told(data.train), test=told(data.test), validation=told(data.validation))


def pinball(outputs, targets):
    far = targets - outputs
    return torch.maximum(0.8 * far, -0.2 * far).mean(-1)


def worst(outputs, targets):
    return float((outputs - targets).abs().max())


worst.falls = True


# What is trained by, and measured ---------------------------------------------------------------------


def test_regression_of_a_synthetic_table_is_learned():
    fed = unknot.simulate(
        lambda: nn.Linear(8, 2), table("values"), recipe=RECIPE, metrics=["r2", "mse", worst]
    )
    history = fed.run(15, requests=[unknot.erase(2, round=8)])
    found = history.scores["test"]
    assert list(found.metrics) == ["r2", "mse", "worst"]
    assert found.value == found.metrics["r2"] > 0.7
    # Half of a squared error's mean over two outputs: the loss is the metric here.
    assert found.loss == pytest.approx(found.metrics["mse"], rel=1e-5)
    assert history.metric == R2()
    assert history.served[0].before["validation"].metrics["r2"] > 0.5


def test_regression_of_a_real_table_is_learned():
    history = unknot.simulate("mlp", ink(), recipe=RECIPE).run(12)
    assert history.scores["test"].metrics["r2"] > 0.2
    assert history.rounds[-1].value == history.value


def test_several_labels_are_learned():
    fed = unknot.simulate("mlp", table("labels"), recipe=RECIPE, metrics=["f1", "accuracy", "auc"])
    history = fed.run(15)
    assert all(value > 0.75 for value in history.scores["test"].metrics.values())
    assert history.rounds[-1].accuracy == history.rounds[-1].scores["validation"].metrics["accuracy"]


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        *((data, loss) for data in (table("values"), table("labels")) for loss in (None, pinball)),
        (ink(), None),
        (ink(), Huber(0.1)),
    ],
    ids=["values", "own", "labels", "own of labels", "a real table", "huber of a real table"],
)
def test_a_federation_on_stacks_is_the_one_on_the_loop(data, loss):
    served = [
        unknot.simulate("mlp", data, recipe=RECIPE, loss=loss, engine=engine, dtype="float64", threads=1)
        .run(4, requests=[unknot.erase(1, round=2)])
        .model.vector
        for engine in ("stacked", "loop")
    ]
    assert float((served[0] - served[1]).abs().max()) < 1e-9


EXACT = {
    "rfs": RFS(),
    "mmt": MMT(),
    "sisa": SISA(),
    "fedcio": FedCIO(2),
    "knot": KNOT(clusters=2, by="random"),
}
TASKS = {
    "values": (table("values"), None),
    "real": (ink(), None),
    "labels": (table("labels"), BinaryCrossEntropy((2.0, 1.0))),
    "own": (table("values"), pinball),
    "own mean": (table("values"), nn.L1Loss()),
}


@pytest.mark.parametrize(
    ("method", "task"),
    [
        *((m, "values") for m in EXACT),
        ("rfs", "real"),
        ("mmt", "real"),
        ("mmt", "labels"),
        ("mmt", "own"),
        ("rfs", "own mean"),
    ],
)
def test_exact_methods_are_exact_whatever_the_task(method, task):
    data, loss = TASKS[task]

    def open(held):
        return unknot.simulate("mlp", held, EXACT[method], RECIPE, loss=loss, evaluate_every=0, threads=1)

    request = unknot.erase(3, round=2)
    assert_no_interference(open, data, request, 2)
    if method == "rfs":
        assert_as_if_never_there(open, data, request, 2)


def test_text_with_masked_targets_is_trained_and_judged_by_perplexity():
    draw = Key.root(1).generator()
    words = torch.from_numpy(draw.integers(0, 5, (40, 7)))
    y = (words + 1) % 5
    y[:, :3] = -100  # an instruction, of which nothing is to be learned
    samples = Samples(words, y, 5)
    data = FederatedData(
        samples, {k: Shard.of(range(10 * k, 10 * k + 10)) for k in range(4)}, samples, samples
    )
    model = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5))
    fed = unknot.simulate(
        model, data, recipe=unknot.Recipe(unknot.SGD(1.0), batch_size=5), metrics=["perplexity"]
    )
    history = fed.run(10)
    assert history.scores["test"].value < 1.1 < history.rounds[0].value
    assert math.exp(history.scores["test"].loss) == pytest.approx(history.scores["test"].value, rel=1e-5)


def test_the_loss_stands_in_the_recipe_and_in_the_record():
    fed = unknot.simulate("mlp", table("values"), recipe=RECIPE, loss="huber", metrics=["mse"])
    assert fed.state.recipe.loss == Huber()
    record = fed.run(1).to_dict()
    assert record["setup"]["recipe"]["loss"] == {"kind": "Huber", "delta": 1.0}
    assert record["setup"]["metrics"] == ["mse"]
    assert set(record["scores"]["test"]["metrics"]) == {"mse"}
    own = unknot.simulate("mlp", table("values"), recipe=RECIPE, loss=pinball).run(1)
    assert "your own, pinball" in own.environment["engine"]["reason"]
    assert own.to_dict()["setup"]["recipe"]["loss"]["function"] == {"kind": "pinball"}


def test_a_record_of_plain_classification_is_what_it_was():
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=3, samples=10))
    record = unknot.simulate("mlp", data, recipe=RECIPE).run(1).to_dict()
    assert set(record["scores"]["test"]["metrics"]) == {"accuracy"}
    assert record["metric"] == "accuracy"


def test_an_engine_that_there_is_measures_by_its_own_task():
    data = table("values")
    engine = make_engine("loop", nn.Linear(8, 2))
    with pytest.raises(ConfigError, match="made for another loss or other metrics"):
        unknot.simulate(nn.Linear(8, 2), data, recipe=RECIPE, engine=engine, metrics=["mse"])
    unknot.simulate(nn.Linear(8, 2), data, recipe=RECIPE, engine=engine)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"metrics": ["accuracy"]},
            "'accuracy' is for targets that are classes or labels, and these are values",
        ),
        ({"loss": "cross-entropy"}, "'cross-entropy' is for targets that are classes"),
        ({"loss": lambda o, t: (o - o.mean(0)).square()}, "mixes the samples of a batch"),
        ({"loss": lambda o, t: o[:, 0].square()}, "r2 and its kin cannot be had"),
    ],
)
def test_what_does_not_go_together_is_refused_before_training(options, said):
    model = nn.Linear(8, 3) if "r2" in said else nn.Linear(8, 2)
    with pytest.raises(ConfigError, match=said):
        unknot.simulate(model, table("values"), recipe=RECIPE, **options)


def test_where_outputs_are_no_predictions_the_loss_is_a_metric():
    history = unknot.simulate(
        nn.Linear(8, 3), table("values"), recipe=RECIPE, loss=lambda o, t: o[:, 0].square(), metrics=["loss"]
    ).run(2)
    assert history.scores["test"].value == pytest.approx(history.scores["test"].loss)
    assert history.metric.falls


# Which way is up --------------------------------------------------------------------------------------


def test_a_run_stops_at_the_goal_of_a_metric_that_falls():
    fed = unknot.simulate(nn.Linear(8, 2), table("values"), recipe=RECIPE, metrics=["mse"])
    first = fed.run(1).value
    history = fed.run(30, goal=first / 2)
    assert history.stopped == "goal"
    assert history.value <= first / 2 < history.rounds[-2].value
    fed.run(3, goal=first / 100, requests=[unknot.erase(0, round=len(history.rounds) + 1)])
    assert "when training stopped at its mse" in fed.run(1).guarantee


def test_goals_are_those_of_the_main_metric():
    fed = unknot.simulate(nn.Linear(8, 2), table("values"), recipe=RECIPE)
    with pytest.raises(ConfigError, match="the main metric of this run is r2: stop at goal"):
        fed.run(3, accuracy=0.5)
    with pytest.raises(ConfigError, match="not at both"):
        fed.run(3, accuracy=0.5, goal=0.5)
    labels = unknot.simulate("mlp", table("labels"), recipe=RECIPE)
    with pytest.raises(ConfigError, match="goals by f1 are shares"):
        labels.run(3, goal=2.0)


def test_recovery_is_right_for_metrics_that_fall():
    fed = unknot.simulate(nn.Linear(8, 2), table("values"), recipe=RECIPE, metrics=["mse", "r2"])
    history = fed.run(20, requests=[unknot.erase(2, round=8)])
    (served,) = history.served
    before = served.before["validation"].value
    recovery = history.recovery(served)
    assert recovery.target == pytest.approx(before / 0.99)
    assert recovery.reached
    assert 0 < recovery.rounds <= 12
    at = next(r for r in history.rounds[served.place :] if r.value <= recovery.target)
    assert at.round - served.round == recovery.rounds


def test_a_selector_that_learns_and_a_best_cluster_go_by_merit():
    data = table("values")
    seen = []

    class Watching(unknot.DQN):
        def fresh(self):
            return self

        def observe(self, model, updates, merit, key):
            seen.append(merit)
            super().observe(model, updates, merit, key)

    fed = unknot.simulate(nn.Linear(8, 2), data, recipe=RECIPE, metrics=["mse"], select=Watching())
    history = fed.run(3)
    assert seen == [-r.scores["validation"].value for r in history.rounds]
    knot = unknot.simulate(
        nn.Linear(8, 2), data, KNOT(clusters=3, by="random", served="best"), RECIPE, metrics=["mse"]
    )
    knot.run(3)
    scores = [knot.engine.evaluate(lane.model, data.validation).value for lane in knot.lanes.values()]
    assert knot.engine.evaluate(knot.model, data.validation).value == min(scores)


def test_thresholds_are_reached_from_above_where_less_is_better():
    fed = unknot.simulate(
        nn.Linear(8, 2), table("values"), recipe=RECIPE, metrics=["mse"], evaluate_on=("test",)
    )
    history = fed.run(20, requests=[unknot.erase(2, round=8)])
    first, last = history.rounds[0].value, history.rounds[-1].value
    found = scenario(history, [(first + last) / 2, last / 10])
    assert found.metric == "mse"
    (outcome,) = found.outcomes
    assert outcome.reached[0].rounds is not None
    assert outcome.reached[1].rounds is None
    again = unknot.History.of(json.loads(json.dumps(history.to_dict())))
    assert LearningCurve.of(again) == LearningCurve.of(history)


def test_tables_name_the_metric_and_show_it_as_it_is():
    fed = unknot.simulate(nn.Linear(8, 2), table("values"), recipe=RECIPE, metrics=["mse", "r2"])
    history = fed.run(6, requests=[unknot.erase(2, round=3)])
    console = Console(record=True, width=120)
    console.print(summary(history))
    text = console.export_text()
    assert "mse of the served model" in text
    assert "test r2" in text
    assert f"{history.scores['test'].value:.4g}" in text
    assert "accuracy" not in text
    assert "99% of it" not in text  # of what falls it is not a share


# From a file ------------------------------------------------------------------------------------------


def test_a_file_names_the_loss_with_its_options_and_the_metrics():
    made = Experiment.of(
        {"task": {"loss": "cross-entropy", "smoothing": 0.1, "weights": [1.0, 2.0], "metrics": ["f1", "auc"]}}
    )
    assert made.setup.recipe.loss == CrossEntropy((1.0, 2.0), 0.1)
    assert [metric.name for metric in made.setup.metrics] == ["f1", "auc"]
    own = Experiment.of({"task": {"loss": "torch.nn.functional:l1_loss", "metrics": ["mse"]}})
    assert isinstance(own.setup.recipe.loss, OwnLoss)
    assert Experiment.of({}).setup.recipe.loss is None
    assert Experiment.of({"task": {"metrics": ["mse"]}, "scenario": {"thresholds": [7.5]}}).thresholds == (
        7.5,
    )
    assert Experiment.of({"task": {"loss": "huber"}, "scenario": {"thresholds": [-0.5]}}).thresholds == (
        -0.5,
    )


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"loss": "cross-entropie"}, "Did you mean 'cross-entropy'"),
        ({"loss": "huber", "smoothing": 0.1}, "task.smoothing belongs to loss = .*, but loss is 'huber'"),
        ({"smoothing": 0.1}, "task.smoothing belongs to loss = .*, but loss is not given"),
        ({"metrics": ["F1"]}, r"task.metrics = 'F1'"),
        ({"metrics": "f1"}, "must be a list"),
        ({"los": "huber"}, "Did you mean 'loss'"),
        ({"loss": "cross-entropy", "smoothing": "much"}, "task.smoothing must be a number"),
        ({"loss": "nowhere.at_all:fn"}, "no module nowhere is installed"),
    ],
)
def test_a_task_that_is_none_is_refused(task, said):
    with pytest.raises(ConfigError, match=said):
        Experiment.of({"task": task})


def test_the_loss_does_not_stand_among_the_training():
    with pytest.raises(ConfigError, match=r"the loss stands in \[task\]"):
        Experiment.of({"train": {"loss": "huber"}})


def test_a_run_from_a_file_goes_by_its_task():
    made = Experiment.of(
        {
            "data": {"clients": 4, "partition": "iid", "samples": 20},
            "task": {"loss": "cross-entropy", "smoothing": 0.1, "metrics": ["balanced-accuracy", "f1"]},
            "federation": {"rounds": 2, "goal": 0.99},
        }
    )
    history = unknot.run(made)
    assert list(history.scores["test"].metrics) == ["balanced-accuracy", "f1"]
    assert history.metric.name == "balanced-accuracy"


def test_an_audit_of_regression_is_refused_in_words():
    from unknot.audit.backdoor import Trigger
    from unknot.audit.signals import check_classes

    with pytest.raises(ConfigError, match=r"these targets are values.*interference"):
        check_classes(table("values").train, "an audit goes by the true class")
    with pytest.raises(ConfigError, match="a trigger stands for a class, and these targets are labels"):
        Trigger().mark(table("labels").test)
