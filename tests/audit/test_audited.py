"""`unknot audit` from the inside: an experiment, what it serves, and the models that it is compared with."""

import json
import random
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from audit_worlds import experiment, kept_model, with_random_labels

from unknot.audit import Views
from unknot.core.ensemble import Ensemble
from unknot.core.errors import ConfigError
from unknot.core.requests import erase, join
from unknot.core.weights import Layout, Weights
from unknot.experiments import Experiment, audited, prepare
from unknot.experiments.audited import audit
from unknot.experiments.case import Case, Thorough, _smoothed
from unknot.unlearn import KNOT, SISA, FedEraser

PLAIN = Thorough(level=0.1, controls=9, sensitivity=0, others=400)
ALL = replace(
    PLAIN,
    sensitivity=8,
    attacks=("lira", "rmia-offline", "shokri", "ulira"),
    shadows=6,
    others=200,
    queries=2,
)


@pytest.fixture(scope="module")
def exact():
    """An exact method, with everything that an audit can ask."""
    said = []
    return audit(experiment(), ALL, tell=said.append), said


@pytest.fixture(scope="module")
def kept():
    return kept_model(experiment())


@pytest.fixture(scope="module")
def guilty(kept):
    return audit(experiment(), PLAIN, served=kept)


def record_of(found):
    return json.loads(json.dumps(found.to_dict(), allow_nan=False))


def without_seconds(found):
    return {name: value for name, value in found.to_dict().items() if name != "seconds"}


def outcomes(found):
    return {finding.attack: finding.outcome for finding in found.verdict.findings}


# What is found ------------------------------------------------------------------------------------


def test_an_exact_method_is_its_control_and_shows_no_trace(exact):
    found, said = exact
    assert found.same
    assert found.outcome == "no trace found"
    assert set(outcomes(found).values()) == {"no trace found"}
    assert (found.erased, found.method, found.members, found.others) == ("client 1", "rfs", 100, 200)
    assert [text.split()[0] for text in said] == ["training", "asking"]
    assert set(found.seconds) == {"training", "asking"}


def test_in_a_model_that_is_its_control_there_is_nothing_to_find_whatever_the_numbers_say(exact, guilty):
    same, verdict = exact[0], guilty.verdict
    assert replace(same, verdict=verdict).outcome == "no trace found"
    assert replace(same, verdict=verdict).to_dict()["outcome"] == "no trace found"
    assert replace(same, verdict=verdict, same=False).outcome == "still shows"


def test_every_attack_finds_what_was_kept(exact):
    found, _ = exact
    assert set(outcomes(found)) == {"trace", "LiRA", "RMIA offline", "Shokri"}
    assert all(finding.seen == (3, 3) for finding in found.verdict.findings)


def test_what_an_exact_method_unlearned_is_not_told_from_what_is_retrained(exact):
    told = exact[0].method_told
    assert told.outcome == "not told apart"
    assert (len(told.curve.members), len(told.curve.others)) == (4, 4)


def test_how_small_a_trace_would_have_been_found_is_said(exact):
    found = exact[0].verdict.sensitivity
    assert list(found.found) == [0.05, 0.1, 0.2, 0.4, 1.0]
    assert found.found[1.0] == (3, 3)
    assert 0.05 <= found.share <= 1


def test_an_exact_method_shows_no_epsilon_and_is_as_far_from_its_control_as_itself(exact):
    found, _ = exact
    assert found.bound.epsilon == 0 < found.bound.most
    assert set(found.divergence) == {"kept", "served", "another control"}
    assert found.divergence["served"].forgetting_error == 0
    assert found.divergence["kept"].erased == 1.0


def test_the_record_says_what_the_verdict_stands_on(exact):
    found, _ = exact
    record = record_of(found)
    assert record["outcome"] == "no trace found"
    assert (record["level"], record["controls"], record["same"]) == (0.1, 9, True)
    assert record["p"] == found.verdict.p
    oddest = found.verdict.oddest
    assert record["statistic"] == {"of": oddest.attack, "deviation": oddest.deviation}
    assert record["seeds"] == {
        "served": [0],
        "controls": list(range(1, 10)),
        "kept": [10_001, 10_002, 10_003],
        "left in": list(range(20_001, 20_009)),
        "shadows": [30_001 + k for k in range(6)],
        "unlearned": [40_001 + k for k in range(9)],
    }
    assert record["sensitivity"]["found"]["1"] == [3, 3]
    assert record["ulira"]["outcome"] == "not told apart"
    assert record["epsilon"]["epsilon"] == 0
    trace, *attacks = record["findings"]
    assert trace["attack"] == "trace"
    assert len(trace["statistics"]["controls"]) == 9
    assert len(attacks[0]["served"]["scores"]["members"]) == 100


def test_a_model_that_kept_the_data_still_shows_it(guilty):
    found = guilty
    assert found.outcome == "still shows"
    assert not found.same
    assert found.verdict.p == pytest.approx(0.1)
    assert found.bound.epsilon > 0
    assert found.verdict.sensitivity is None
    assert record_of(found)["sensitivity"] is None
    assert found.divergence["served"].forgetting_error > 0.05


def test_a_model_that_unlearned_by_random_labels_is_over_forgotten(kept):
    spoilt = with_random_labels(experiment(), kept)
    found = audit(experiment(), PLAIN, served=spoilt)
    assert found.outcome == "over-forgotten"
    assert found.verdict.findings[0].deviation < -found.verdict.findings[0].critical


def test_an_approximate_method_is_judged_by_the_numbers():
    found = audit(experiment("federation.rounds=8", method=FedEraser(interval=1)), PLAIN)
    assert not found.same
    assert (found.outcome in ("still shows", "over-forgotten")) == (
        found.verdict.p <= 0.1 and found.outcome != "no power"
    )


def test_where_there_is_nothing_to_find_nothing_else_is_said():
    """So little is learned that what kept the data does not show it: whatever is served."""
    idle = experiment("train.lr=1e-6", "federation.rounds=4")
    odd = kept_model(experiment("federation.rounds=6"))
    found = audit(idle, PLAIN, served=odd)
    assert found.outcome == "no power"
    assert found.verdict.sensitivity is None


def test_a_client_that_never_took_part_left_nothing_to_find():
    short = experiment("federation.rounds=2", "federation.per_round=1", "request=[]")
    asked = {client for round in prepare(short).run(2).rounds for client in round.clients}
    (idle, *_) = {0, 1, 2} - asked
    found = audit(replace(short, requests=(erase(idle, round=1),)), replace(PLAIN, others=100))
    assert found.same
    assert found.others == 100
    assert (found.outcome, found.verdict.outcome) == ("no trace found", "no power")


def test_an_audit_repeats_wherever_the_served_model_comes_from():
    """The run's own model, handed in, is found as the run's own."""
    few = experiment("federation.rounds=3")
    thorough = replace(PLAIN, sensitivity=8, attacks=("rmia",), shadows=4, others=100)
    own = prepare(few).run(3, requests=few.requests).model
    first, again = (audit(few, thorough, served=served) for served in (None, own))
    assert first.same
    assert {**without_seconds(first), "model": again.model, "guarantee": ""} == without_seconds(again)
    assert own.digest() in again.model


# What can be audited ------------------------------------------------------------------------------


def test_single_samples_are_audited():
    some = experiment(requests=(erase({1: range(40)}, round=3),))
    found = audit(some, replace(PLAIN, attacks=("lira-offline",), shadows=6, others=80))
    assert found.same
    assert (found.erased, found.members, found.others) == ("40 samples of client 1", 40, 80)
    assert outcomes(found)["trace"] == "no trace found"
    assert found.verdict.findings[0].seen == (3, 3)


@pytest.mark.slow
def test_several_clients_and_requests_are_audited_as_one():
    many = experiment(
        "data.clients=4",
        "federation.rounds=6",
        requests=(erase({1: [0, 1]}, round=2), erase([1, 3], round=3)),
    )
    found = audit(many, PLAIN)
    assert found.same
    assert found.members == 200
    assert found.erased == "2 samples of client 1, client 1, client 3"


@pytest.mark.slow
def test_clusters_that_train_apart_are_audited():
    knot = experiment(
        "data.clients=4", "federation.rounds=9", method=KNOT(clusters=2, by="random", served="ensemble")
    )
    found = audit(knot, PLAIN)
    assert found.same
    assert found.outcome == "no trace found"


def test_votes_are_counted_as_if_one_more_had_been_split_among_the_classes():
    """Three of four votes for one class of five, and all four: that is not certain of anything."""
    layout = Layout(("w",), ((1,),))
    parts = tuple((1.0, Weights(torch.zeros(1), layout)) for _ in range(4))
    answers = torch.tensor([[0.75, 0.25, 0, 0, 0], [0, 0, 1, 0, 0]], dtype=torch.float64)
    found = _smoothed(answers, Ensemble(parts, "majority"))
    expected = [[3.2 / 5, 1.2 / 5, *[0.2 / 5] * 3], [0.2 / 5, 0.2 / 5, 4.2 / 5, *[0.2 / 5] * 2]]
    assert found.numpy() == pytest.approx(np.array(expected))
    for model in (Ensemble(parts, "mean"), parts[0][1]):
        assert _smoothed(answers, model) is answers


@pytest.mark.slow
def test_votes_are_audited_and_what_was_kept_is_found_in_them():
    voting = experiment("data.clients=6", "federation.rounds=8", method=SISA())
    found = audit(voting, Thorough(sensitivity=8, attacks=("ulira",), others=400))
    assert found.same
    assert found.outcome == found.verdict.outcome == "no trace found"
    assert found.verdict.findings[0].seen == (3, 3)
    record_of(found)


@pytest.fixture(scope="module")
def speakers(tmp_path_factory):
    """Four speakers who say nothing that could be learned but by heart."""
    root, draw = tmp_path_factory.mktemp("texts"), random.Random(0)
    path = root / "shakespeare" / "tinyshakespeare.txt"
    path.parent.mkdir()
    said = ("".join(draw.choices("abcdefgh", k=400)) for _ in range(4))
    path.write_text("\n\n".join(f"S{who}:\n{words}" for who, words in enumerate(said)) + "\n")
    table = f"""
[data]
name = "shakespeare"
root = "{root}"
partition = "by-owner"
context = 8
test_share = 0.4
validation = 0
[model]
name = "gpt"
layers = 1
heads = 2
width = 16
[train]
optimizer = "adam"
lr = 0.01
epochs = 3
batch_size = 16
[federation]
rounds = 10
[[request]]
erase = 1
round = 2
"""
    return Experiment.of(tomllib.loads(table))


def test_text_is_audited_without_classes_and_without_the_leavers_own_test_samples(speakers):
    found = audit(speakers, replace(PLAIN, others=None))
    data = prepare(speakers).data
    assert found.same
    assert found.outcome == "no trace found"
    assert found.members == len(data[1])
    assert found.others == (data.test_owner != 1).sum()
    assert found.verdict.findings[0].seen == (3, 3)


@pytest.mark.slow
def test_text_is_put_to_the_attacks_that_need_no_classes(speakers):
    found = audit(speakers, Thorough(sensitivity=0, attacks=("lira-offline", "rmia"), shadows=16))
    assert found.same
    assert set(outcomes(found)) == {"trace", "LiRA offline", "RMIA"}
    assert outcomes(found)["LiRA offline"] == "no trace found"


# What is refused ----------------------------------------------------------------------------------

FEW = ("federation.rounds=2", "request=[{erase=1, round=1}]")


@pytest.mark.parametrize("requests", [(), (join(1, round=2),), (erase(1, round=2), join(2, round=1))])
def test_an_experiment_without_erasures_or_with_other_requests_is_refused(requests):
    with pytest.raises(ConfigError, match="erase requests, and with no others"):
        audit(experiment(requests=requests))


def test_an_experiment_that_erases_everybody_is_refused():
    with pytest.raises(ConfigError, match="everybody is erased"):
        audit(experiment(requests=(erase([0, 1, 2], round=2),)))


def test_a_run_that_ends_before_its_erasure_is_refused():
    with pytest.raises(ConfigError, match="ended before the erasure"):
        audit(experiment("federation.rounds=1"), PLAIN)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attacks": ("lyra",)}, "there is no attack 'lyra'; there are lira, .*, ulira"),
        ({"attacks": ("lira", "lira")}, "named twice"),
        ({"controls": 18}, "needs at least 19 controls, not 18"),
        ({"level": 0.01}, "needs at least 99 controls, not 19"),
        ({"level": 0}, "between 0 and 1"),
        ({"sensitivity": -1}, "at least 8 models, or 0 to do without; not -1"),
        ({"attacks": ("lira",), "shadows": 5}, "in pairs"),
        ({"attacks": ("ulira",), "level": 0.3, "controls": 5}, "at least 8 models of each kind, not 5"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Thorough(**options)


def test_shadows_are_not_looked_at_where_no_attack_needs_them():
    assert Thorough(shadows=5).published == ()


@pytest.mark.parametrize("others", [0, 2001])
def test_others_beyond_the_test_set_are_refused(others):
    with pytest.raises(ConfigError, match=f"2000 test samples: an audit cannot take {others} of them"):
        audit(experiment(*FEW), Thorough(others=others))


def test_shadows_that_are_too_few_for_the_points_are_refused():
    with pytest.raises(
        ConfigError, match="4 shadow models are too few for 100 members and 400 others"
    ) as refused:
        audit(experiment(*FEW), Thorough(attacks=("lira",), shadows=4, others=400))
    assert "take 10 or more, or make them more alike in number" in str(refused.value)
    Case.of(experiment(*FEW), Thorough(attacks=("lira",), others=400)).inside(10)


def test_an_attack_that_needs_classes_is_refused_for_text_before_anything_is_trained(speakers):
    said = []
    with pytest.raises(ConfigError, match="one label each, not for text"):
        audit(speakers, Thorough(attacks=("shokri",)), tell=said.append)
    assert not said


def test_several_queries_of_what_has_no_pixels_are_refused(speakers):
    with pytest.raises(ConfigError, match="that is for images"):
        audit(speakers, Thorough(queries=2))
    with pytest.raises(ConfigError, match="1 to 9 queries"):
        audit(experiment(*FEW), Thorough(queries=10))


def test_a_model_that_has_diverged_is_refused(kept):
    broken = Weights(kept.vector * np.nan, kept.layout)
    with pytest.raises(ConfigError, match="it has diverged, and cannot be audited"):
        audit(experiment(*FEW), PLAIN, served=broken)


def test_a_model_of_another_kind_is_refused_before_anything_is_trained(kept):
    said, other = [], Weights(torch.zeros(1), Layout(("w",), ((1,),)))
    for served in (other, Ensemble(((1.0, kept), (1.0, other)))):
        with pytest.raises(ConfigError, match=r"not the experiment's: .* names and shapes"):
            audit(experiment(*FEW), PLAIN, served=served, tell=said.append)
    assert not said


def test_what_sets_the_erased_samples_apart_in_every_control_too_is_no_epsilon():
    """Samples unlike the others, wrongly labelled ones say: in the served model as in those without them."""

    def made(models, seed, shift):
        hard = np.random.default_rng(0).normal(0, 2, 1100)
        noise = np.random.default_rng(seed).normal(size=(models, 1100))
        return hard + noise + shift * (np.arange(1100) < 100)

    def bound(shift):
        views = Views(made(1, 1, shift)[0], made(19, 2, 3.0), made(3, 3, 8.0), made(0, 4, 0.0))
        return audited._bound(views, np.zeros(1100, dtype=np.int64), 100, 0.05)

    assert bound(3.0).epsilon == 0
    assert 1 < bound(6.0).epsilon < bound(6.0).most
