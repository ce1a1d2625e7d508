"""Shokri's attack on what the runs of a reproduction erased: before, after, and without the data."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch

from unknot.core.errors import ConfigError
from unknot.core.requests import erase, join
from unknot.experiments import Experiment, exposed, prepare, run
from unknot.experiments.exposed import Control, Exposed, Exposure, Known, described, plain
from unknot.experiments.simulate import data_of, prepare_without
from unknot.federation.cohort import run_alone

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
FEW = """
[data]
partition = "iid"
clients = 4
samples = 25
validation = 0
[model]
name = "mlp"
hidden = [64]
[train]
lr = 0.1
epochs = 20
batch_size = 10
[federation]
rounds = 6
per_round = 4
evaluate_on = ["test"]
[[request]]
erase = 1
round = 3
"""
LITTLE = Exposure(shadows=4, samples=300, controls=0)
SEEING = Exposure(shadows=8, samples=75)
SMALL = Exposure(shadows=4, samples=75, controls=3, level=0.34)
ONE = "train.epochs=1"  # where nothing has to be seen
TEST = {"p_before", "p_after", "sees", "flagged", "over_forgotten"}


def experiment(*overrides):
    return Experiment.of(tomllib.loads(FILE), overrides)


def few(*overrides):
    """Few clients learn a few samples by heart: the attack sees that. All are asked, more than are left."""
    return Experiment.of(tomllib.loads(FEW), overrides)


def figures(found, model):
    return [found[f"{name}_{model}"] for name in ("f1", "auc")]


def test_what_is_retrained_is_one_more_control_and_told_from_them_by_chance_alone():
    asked, attacker = few(), Exposed()
    history, found = attacker.run(asked, SEEING)
    assert history.model.equal(run(asked).model)  # being watched changes nothing
    assert found["asked"] == 3
    assert (found["sees"], found["flagged"], found["over_forgotten"]) == (1, 0, 0)
    known = attacker._known(asked, SEEING)
    served = prepare(asked).engine.predict(history.model, known.points)
    assert torch.equal(control(plain(asked), known, 3).answers[3], served)
    # So each of the twenty could have been the one: no more than one of them is told from the others.
    models = known.scores(torch.cat([served[None], *known.controls(3)]), known.shadows(3))
    classes = known.points.y.numpy()
    p = []
    for i, one in enumerate(models):
        others = np.delete(models, i, axis=0)
        p.append(described({"before": one}, {"before": others}, classes, known.members)["p_before"])
    assert p[0] == found["p_after"]
    assert sum(value <= 0.05 for value in p) <= 1


def test_a_model_that_is_kept_as_it_is_still_shows(monkeypatch):
    def negligent(fed, asked):
        kept = (yield from fed.running(3)).model
        history = yield from fed.running(3, requests=asked.requests)
        history.model = kept
        return history

    monkeypatch.setattr(exposed, "going", negligent)
    _, found = Exposed().run(few(), SEEING)
    assert figures(found, "after") == figures(found, "before")
    assert found["auc_after"] > found["auc_control"]
    assert (found["sees"], found["flagged"], found["over_forgotten"]) == (1, 1, 0)
    assert found["p_before"] == found["p_after"] == 0.05


@pytest.mark.parametrize(
    ("method", "after"),
    [
        ("name=rfs", 3),  # begins again
        ("name=federaser", 3),  # goes once more through the three rounds that it kept
        ("name=bmt", 6),  # goes on
    ],
)
def test_controls_train_for_as_long_as_what_is_attacked(monkeypatch, method, after):
    seen = []
    monkeypatch.setattr(Known, "attack", lambda known, answers, lengths: seen.append(lengths) or {})
    Exposed().run(few(ONE, f"method.{method}"), SMALL)
    assert seen == [{"before": 3, "after": after}]


def test_a_control_is_fedavg_without_the_data_and_may_go_on_later():
    asked = plain(few(ONE))
    known, later = Known(asked, SMALL), Known(asked, SMALL)
    short, long = known.controls(2, 4)
    assert short.shape == long.shape == (3, 50, 10)
    assert torch.equal(short, *later.controls(2))
    assert torch.equal(long, *later.controls(4))
    assert not torch.equal(short, long)
    assert not torch.equal(short[0], short[1])
    # With another seed prepare_without would deal the data anew: compared is what has the same one.
    fed = prepare(asked)
    same = control(asked, known, 4)
    setup = replace(asked.setup, pace=replace(asked.setup.pace, per_round=3))
    without = prepare_without(replace(asked, setup=setup))
    for rounds in (2, 4):
        without.run(2)
        assert torch.equal(fed.engine.predict(without.model, known.points), same.answers[rounds])


def control(asked, known, rounds):
    """With the seed of the run itself."""
    fed = prepare(asked)
    own = Control(asked, fed.data.lent(), known.points, asked.seed, fed.engine)
    run_alone(own.train(rounds))
    assert len(fed.data) == len(data_of(asked))  # it is on loan: nothing happens to it
    return own


def test_who_never_took_part_left_nothing_to_find():
    short = experiment("federation.per_round=1", "federation.rounds=4")
    took = {client for record in prepare(short).run(2).rounds for client in record.clients}
    idle = min(set(range(20)) - took)
    asked, attacker = replace(short, requests=(erase(idle, round=2),)), Exposed()
    _, found = attacker.run(asked, LITTLE)
    assert found["asked"] == 0
    known = attacker._known(asked, LITTLE)
    scores = known.scores(control(plain(asked), known, 2).answers[2][None], known.shadows(2))
    beside = described({"before": scores[0]}, {}, known.points.y.numpy(), known.members)
    assert figures(found, "before") == figures(beside, "before")


def test_members_and_others_are_alike_but_for_membership():
    """100 samples of client 1, 80 of them of one class; as many test samples, as many of each class."""
    asked = plain(experiment())
    known = Known(asked, LITTLE)
    mine, theirs = known.points.y.numpy().reshape(2, -1)
    assert len(mine) == known.members == 100
    assert np.bincount(mine).max() == 80
    assert np.array_equal(np.bincount(mine), np.bincount(theirs))
    data = prepare(asked).data
    held = {row.tobytes() for row in data.train.x[data[1].rows].numpy()}
    assert all(row.tobytes() in held for row in known.points.x[:100].numpy())
    # The shadows learned from neither: half of 600 samples that remain.
    shadows = known.shadows(1)
    assert shadows.inside.shape == (4, 600)
    assert not held & {row.tobytes() for row in shadows.points.x.numpy()}


def test_what_lines_have_in_common_is_trained_once(monkeypatch):
    made = {"shadows": 0, "controls": 0, "rounds": 0}

    def count(what, do):
        def counted(*given, **named):
            made[what] += 1
            return do(*given, **named)

        return counted

    monkeypatch.setattr(exposed, "train_shadows", count("shadows", exposed.train_shadows))
    monkeypatch.setattr(exposed, "assemble", count("controls", exposed.assemble))
    monkeypatch.setattr(Control, "_look", count("rounds", Control._look))
    both = Exposed()
    first, second = (both.run(few(ONE, f"method.name={name}"), SMALL)[1] for name in ("rfs", "federaser"))
    assert made == {"shadows": 1, "controls": 3, "rounds": 3 * (3 + 1)}  # an erasure, and three rounds
    assert figures(first, "control") == figures(second, "control")
    both.run(few(ONE, "method.name=bmt"), SMALL)
    assert made == {"shadows": 1, "controls": 3, "rounds": 3 * (6 + 1)}  # they went on
    both.run(few(ONE, "seed=1"), SMALL)
    assert (made["shadows"], made["controls"]) == (2, 6)


def test_without_controls_there_is_no_verdict():
    _, found = Exposed().run(few(ONE), replace(SMALL, controls=0))
    _, beside = Exposed().run(few(ONE), SMALL)
    assert {"f1_control", "auc_control", *TEST} == set(beside) - set(found)
    assert figures(found, "before") == figures(beside, "before")


def test_f1_by_hand_and_no_tpr_of_so_few():
    """Two of three members and one of three others score above ½: precision and recall are 2/3."""
    scores, classes = np.array([0.9, 0.8, 0.4, 0.7, 0.2, 0.1]), np.zeros(6, dtype=np.int64)
    found = described({"before": scores}, {}, classes, 3)
    assert found == {"f1_before": pytest.approx(2 / 3), "auc_before": pytest.approx(8 / 9)}
    assert described({"after": scores + 0.5}, {}, classes, 3)["f1_after"] == pytest.approx(2 / 3)
    assert described({"after": scores - 0.5}, {}, classes, 3)["f1_after"] == 0


def test_of_a_thousand_others_there_is_a_tpr_and_of_controls_the_median():
    scores, classes = np.linspace(1, 0, 2000), np.zeros(2000, dtype=np.int64)
    controls = np.stack([scores, scores[::-1], scores])
    found = described({"after": scores}, {"after": controls}, classes, 1000, level=0.25)
    assert (found["tpr_after"], found["tpr_control"]) == (1, 1)
    assert (found["auc_after"], found["auc_control"]) == (1, 1)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (0.2, 0.2, {"sees": 1, "flagged": 1, "over_forgotten": 0}),
        (0.2, -0.2, {"sees": 1, "flagged": 0, "over_forgotten": 1}),
        (0.2, 0.0, {"sees": 1, "flagged": 0, "over_forgotten": 0}),
        (0.0, 0.2, {"sees": 0, "flagged": 0, "over_forgotten": 0}),  # no power: nothing else is said
        (-0.2, -0.2, {"sees": 0, "flagged": 0, "over_forgotten": 0}),
    ],
)
def test_the_four_outcomes(before, after, outcome):
    """By how much more a model's members score than those of models that never had them."""
    models = np.random.default_rng(0).uniform(0.3, 0.7, (39, 200))
    shown = {"before": models[0].copy(), "after": models[0].copy()}
    shown["before"][:100] += before
    shown["after"][:100] += after
    controls = {"before": models[1:20], "after": models[20:]}
    found = described(shown, controls, np.arange(200) % 2, 100)
    assert {name: found[name] for name in outcome} == outcome
    assert (found["p_before"] == 0.05) == (before != 0)
    assert (found["p_after"] == 0.05) == (after != 0)


def test_a_model_that_has_diverged_has_no_figures(monkeypatch):
    def spoiled(fed, asked):
        history = yield from going(fed, asked)
        history.model = history.model * float("nan")
        return history

    going = exposed.going
    monkeypatch.setattr(exposed, "going", spoiled)
    _, found = Exposed().run(few(ONE), SMALL)
    assert not {"f1_after", "p_after", "flagged", "over_forgotten"} & set(found)
    assert {"f1_before", "p_before", "sees", "f1_control"} <= set(found)


def test_among_controls_of_which_one_has_diverged_nothing_is_ranked(monkeypatch):
    def spoiled(control):
        ask(control)
        if control._fed.state.seed == 1:
            control.answers[-1] *= float("nan")

    ask = Control._ask
    monkeypatch.setattr(Control, "_ask", spoiled)
    _, found = Exposed().run(few(ONE), SMALL)
    assert not {"f1_control", *TEST} & set(found)
    assert {"f1_before", "f1_after"} <= set(found)


def test_with_a_shadow_that_has_diverged_the_run_is_kept_without_figures(monkeypatch):
    def spoiled(*given):
        shadows = trained(*given)
        shadows.answers[0] = float("nan")
        return shadows

    trained = exposed.train_shadows
    monkeypatch.setattr(exposed, "train_shadows", spoiled)
    history, found = Exposed().run(few(ONE), SMALL)
    assert set(found) == {"asked", "audit_seconds"}
    assert found["asked"] == 3
    assert history.model.equal(run(few(ONE)).model)


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
    history, found = Exposed().run(asked, replace(LITTLE, samples=50))
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
    with pytest.raises(ConfigError, match="at least 19 controls, not 18"):
        Exposure(controls=18)
    with pytest.raises(ConfigError, match="at least 99 controls"):
        Exposure(level=0.01)
    with pytest.raises(ConfigError, match="erase requests"):
        Exposed().run(replace(experiment(), requests=(join(1, round=1),)), LITTLE)
    with pytest.raises(ConfigError, match="trains before its request"):
        Exposed().run(experiment("request=[{erase=1, round=0}]", "federation.rounds=1"), LITTLE)
