"""What was put into the erased client's data beforehand: who still answers to a mark, who knows a coin."""

import json
import tomllib
from dataclasses import replace

import pytest

from support import Keeps
from unknot.audit import Canaries, Guesses, Trigger
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.experiments import Experiment
from unknot.experiments.planted import CanaryAudit, backdoor, with_canaries
from unknot.unlearn import METHODS, FedEraser

FILE = """
name = "marked"
[data]
partition = "iid"
clients = 3
samples = 60
validation = 20
[train]
lr = 0.05
epochs = 2
batch_size = 10
[federation]
rounds = 16
[[request]]
erase = 1
round = 6
"""


FEW = {"controls": 9, "level": 0.1}
EARLY = ("federation.rounds=2", "request=[{erase=1, round=1}]")


def experiment(*overrides, **changes):
    return replace(Experiment.of(tomllib.loads(FILE), overrides), **changes)


@pytest.fixture(scope="module")
def mark():
    return backdoor(experiment(), **FEW)


@pytest.fixture(scope="module")
def coins():
    return with_canaries(experiment("federation.rounds=26"), Canaries(100))


def test_a_mark_is_forgotten_by_an_exact_method(mark):
    """And no chance can say otherwise: by the numbers alone, this one is the oddest of 10."""
    assert mark.same
    assert mark.outcome == "no trace found"
    assert mark.p == pytest.approx(0.1)
    assert all(rate.value > 0.8 for rate in mark.kept)
    assert all(rate.value < 0.3 for rate in (mark.served, *mark.controls))


def test_the_record_of_a_mark_says_what_it_stands_on(mark):
    record = json.loads(json.dumps(mark.to_dict(), allow_nan=False))
    assert (record["experiment"], record["erased"], record["target"]) == ("marked", "client 1", 0)
    assert (record["level"], record["p"], record["outcome"]) == (0.1, mark.p, "no trace found")
    assert record["seeds"] == {"controls": list(range(1, 10)), "kept": [10_001, 10_002, 10_003]}
    assert len(record["controls"]) == 9
    assert len(record["kept"]) == 3
    assert set(record["served"]) == {"value", "low", "high"}


def test_a_mark_is_still_there_in_what_forgets_nothing():
    """Whatever the request, all its rounds are spent on with the marked model."""
    kept = experiment("federation.rounds=8", method=Keeps())
    found = backdoor(kept, Trigger(target=3), **FEW)
    assert found.outcome == "still shows"
    assert not found.same
    assert found.p == pytest.approx(0.1)
    assert found.target == 3
    assert found.served.value > 0.5 > max(rate.value for rate in found.controls)


@pytest.mark.slow
def test_a_model_that_is_not_its_control_bit_for_bit_is_judged_by_the_numbers():
    found = backdoor(experiment("federation.rounds=9", method=FedEraser(interval=1)))
    assert not found.same
    assert (found.outcome == "no trace found") == (found.p > 0.05)


def test_a_mark_that_nobody_learned_says_nothing():
    """With steps so small, a model that kept the marked data does not answer to it either."""
    found = backdoor(experiment("train.lr=1e-7", *EARLY, method=Keeps()), **FEW)
    assert not found.same
    assert found.outcome == "no power"


def test_coins_are_forgotten_by_an_exact_method_and_known_to_what_kept_them(coins):
    assert coins.same
    assert coins.outcome == "no trace found"
    assert coins.kept.verdict() == "still shows"
    assert coins.served.made == coins.kept.made == 100


def test_the_record_of_coins_says_what_it_stands_on(coins):
    record = json.loads(json.dumps(coins.to_dict(), allow_nan=False))
    assert (record["erased"], record["level"], record["outcome"]) == ("client 1", 0.05, "no trace found")
    assert record["p"] == coins.served.two_sided
    assert record["seeds"] == {"controls": [1, 2, 3], "kept": [10_001]}
    assert record["served"]["right"] == coins.served.right
    assert record["kept"]["right"] == coins.kept.right


def test_coins_are_still_known_to_what_forgets_nothing():
    found = with_canaries(
        experiment("federation.rounds=26", "request=[{erase=1, round=24}]", method=Keeps()), Canaries(100)
    )
    assert found.outcome == "still shows"
    assert found.to_dict()["p"] <= 0.05


def test_coins_that_nobody_learned_say_nothing():
    found = with_canaries(experiment("train.lr=1e-7", *EARLY, method=Keeps()), Canaries(20))
    assert not found.same
    assert found.outcome == "no power"


def test_what_the_coins_say_by_chance_of_a_model_that_is_its_control_is_not_said():
    lucky, unlucky, known, unknown = (Guesses(right, 100, 100) for right in (70, 30, 95, 50))

    def outcome(same, served, kept):
        return CanaryAudit("x", "client 1", 0.05, same, served, kept, {}).outcome

    assert {outcome(True, served, kept) for served in (lucky, unlucky) for kept in (known, unknown)} == {
        "no trace found"
    }
    assert [outcome(False, served, known) for served in (lucky, unlucky)] == ["still shows", "over-forgotten"]
    assert outcome(False, lucky, unknown) == "no power"


def test_a_mark_in_a_model_that_is_its_control_is_no_trace_though_nothing_could_have_been_seen():
    found = backdoor(experiment("train.lr=1e-7", *EARLY), **FEW)
    assert found.same
    assert found.outcome == "no trace found"


def test_what_was_planted_is_audited_the_same_again():
    few = experiment(*EARLY)
    assert with_canaries(few, Canaries(20)).to_dict() == with_canaries(few, Canaries(20)).to_dict()


def test_who_is_told_hears_how_many_models_are_trained():
    said = []
    with_canaries(experiment(*EARLY), Canaries(20), tell=said.append)
    assert said == ["training 6 models"]


def test_only_whole_clients_are_planted_in():
    some = experiment(requests=(erase({1: [0, 1]}, round=6),))
    with pytest.raises(ConfigError, match="all of a client's samples"):
        backdoor(some)
    with pytest.raises(ConfigError, match="all of a client's samples"):
        with_canaries(some)


def test_what_makes_no_sense_is_refused_before_anything_is_trained():
    with pytest.raises(ConfigError, match="at least 19 controls, not 10"):
        backdoor(experiment(), controls=10)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        with_canaries(experiment(), level=1.5)
    with pytest.raises(ConfigError, match="class from 0 to 9"):
        backdoor(experiment(), Trigger(target=12))
    for planted in (backdoor, with_canaries):
        with pytest.raises(ConfigError, match="erase requests"):
            planted(experiment(requests=()))


def test_the_broken_method_is_none_of_those_on_offer():
    assert Keeps.name not in METHODS
