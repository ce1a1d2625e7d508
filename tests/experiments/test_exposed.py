"""Shokri's attack on what the runs of a reproduction erased: before, after, and without the data."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from unknot.audit import Curve, Figures
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.core.requests import erase, join
from unknot.experiments import Experiment, exposed, prepare, run
from unknot.experiments.exposed import Exposed, Exposure, described, known_of, plain

FILE = """
[data]
partition = "dominant-class"
clients = 20
samples = 100
share = 0.8
validation = 0
test = "clients"
test_samples = 10
[train]
lr = 0.05
epochs = 2
batch_size = 10
[federation]
rounds = 6
evaluate_on = ["test"]
[[request]]
erase = 1
round = 3
"""
LITTLE = Exposure(shadows=4, samples=300)
MODELS = ("before", "after", "control")


def experiment(*overrides):
    return Experiment.of(tomllib.loads(FILE), overrides)


def figures(found, model):
    return [found[f"{name}_{model}"] for name in ("f1", "auc")]


def test_what_is_retrained_for_as_long_is_the_control():
    history, found = Exposed().run(experiment(), LITTLE)
    assert figures(found, "after") == figures(found, "control")
    assert figures(found, "before") != figures(found, "control")
    assert found["asked"] == 3
    assert found["flagged"] == 0
    assert history.model.equal(run(experiment()).model)  # being watched changes nothing


def test_a_model_that_is_kept_as_it_is_shows_as_much_as_before(monkeypatch):
    def negligent(fed, asked):
        kept = fed.run(3).model
        history = fed.run(3, requests=asked.requests)
        history.model = kept
        return history

    monkeypatch.setattr(exposed, "go", negligent)
    _, found = Exposed().run(experiment(), LITTLE)
    assert figures(found, "after") == figures(found, "before")
    assert found["flagged"] == found["sees"]


def test_who_never_took_part_left_nothing_to_find():
    short = experiment("federation.per_round=1", "federation.rounds=4")
    took = {client for record in prepare(short).run(2).rounds for client in record.clients}
    idle = min(set(range(20)) - took)
    _, found = Exposed().run(replace(short, requests=(erase(idle, round=2),)), LITTLE)
    assert found["asked"] == 0
    assert figures(found, "before") == figures(found, "control")


def test_members_and_others_are_alike_but_for_membership():
    """100 samples of client 1, 80 of them of one class; as many test samples, as many of each class."""
    asked = plain(experiment())
    known = known_of(asked, 1, LITTLE)
    mine, theirs = known.points.y.numpy().reshape(2, -1)
    assert len(mine) == 100
    assert np.bincount(mine).max() == 80
    assert np.array_equal(np.bincount(mine), np.bincount(theirs))
    data = prepare(asked).data
    held = {row.tobytes() for row in data.train.x[data[1].rows].numpy()}
    assert all(row.tobytes() in held for row in known.points.x[:100].numpy())
    # The shadows learned from neither: half of 600 samples that remain.
    assert known.shadows.inside.shape == (4, 600)
    assert not held & {row.tobytes() for row in known.shadows.points.x.numpy()}


def test_what_lines_have_in_common_is_trained_once(monkeypatch):
    made = []

    def count(*given):
        made.append(given)
        return known_of(*given)

    monkeypatch.setattr(exposed, "known_of", count)
    both = Exposed()
    first, second = (both.run(experiment(f"method.name={name}"), LITTLE)[1] for name in ("rfs", "federaser"))
    assert len(made) == 1
    assert figures(first, "control") == figures(second, "control")
    both.run(experiment("seed=1"), LITTLE)
    assert len(made) == 2


def test_without_a_control_nothing_is_told_from_it():
    _, found = Exposed().run(experiment(), replace(LITTLE, control=False))
    _, beside = Exposed().run(experiment(), LITTLE)
    assert {"f1_control", "sees", "flagged"} <= set(beside)
    assert not {"f1_control", "sees", "flagged"} & set(found)
    assert figures(found, "before") == figures(beside, "before")


def test_f1_by_hand():
    """Two of three members and one of three others score above ½: precision and recall are 2/3."""
    curve = Curve.of([0.9, 0.8, 0.4], [0.7, 0.2, 0.1])
    found = described({"before": Figures.of(curve, 0.5, Key.root(0))})
    assert found == {"f1_before": pytest.approx(2 / 3), "auc_before": pytest.approx(8 / 9)}
    always = described({"after": Figures.of(curve, 0.0, Key.root(0))})
    assert always["f1_after"] == pytest.approx(2 / 3)
    assert described({"after": Figures.of(curve, 1.0, Key.root(0))})["f1_after"] == 0


def test_a_model_that_has_diverged_has_no_figures(monkeypatch):
    def spoiled(fed, asked):
        history = exposed_go(fed, asked)
        history.model = history.model * float("nan")
        return history

    exposed_go = exposed.go
    monkeypatch.setattr(exposed, "go", spoiled)
    _, found = Exposed().run(experiment(), LITTLE)
    assert "f1_after" not in found
    assert "flagged" not in found
    assert "f1_before" in found


def test_with_a_shadow_that_has_diverged_the_run_is_kept_without_figures(monkeypatch):
    def spoiled(*given):
        shadows, steps = trained(*given)
        shadows.answers[0] = float("nan")
        return shadows, steps

    trained = exposed.shadows_of
    monkeypatch.setattr(exposed, "shadows_of", spoiled)
    history, found = Exposed().run(experiment(), LITTLE)
    assert set(found) == {"asked", "audit_seconds"}
    assert found["asked"] == 3
    assert history.model.equal(run(experiment()).model)


CLUSTERS = (
    'method={name="knot", clusters=3, by="random"}',
    'clock={slowness="pareto"}',
    "federation.per_round=15",
    "federation.rounds=6",
)


@pytest.mark.parametrize(
    ("client", "moment", "counted"),
    [
        (0, "time=30.0", 6),  # of the fastest cluster, which is led on beyond its six rounds
        (3, "time=30.0", 1),  # of a slower one: after a round of it, though all six have a number up to six
        (3, "time=20.0", 0),  # the round that would end at that moment is cut short
        (3, "round=1", 1),  # the request waits for the round that ends at that moment
    ],
)
def test_only_rounds_before_the_request_count_whatever_the_pace_of_a_cluster(client, moment, counted):
    """Who loses some samples goes on taking part."""
    asked = experiment(*CLUSTERS, f"request=[{{erase={client}, samples=[0, 1], {moment}}}]")
    history, found = Exposed().run(asked, replace(LITTLE, samples=50, control=False))
    (served,) = history.served
    assert served.time == (30 if moment == "time=30.0" else 20)
    furthest = max(record.round for record in history.rounds[: served.place])
    assert sum(client in record.clients for record in history.rounds if record.round <= furthest) >= 5
    assert found["asked"] == counted


def test_what_cannot_be_attacked_is_said():
    with pytest.raises(ConfigError, match="in pairs"):
        Exposure(shadows=3)
    with pytest.raises(ConfigError, match="at least 1"):
        Exposure(samples=0)
    with pytest.raises(ConfigError, match="erase requests"):
        Exposed().run(replace(experiment(), requests=(join(1, round=1),)), LITTLE)
    with pytest.raises(ConfigError, match="trains before its request"):
        Exposed().run(experiment("request=[{erase=1, round=0}]", "federation.rounds=1"), LITTLE)
