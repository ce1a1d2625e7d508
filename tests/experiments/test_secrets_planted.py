"""Secrets in the erased client's texts: exposed before the erasure, and not after an exact one."""

import json

import pytest

from support import Keeps
from text_worlds import speeches, spoken
from unknot.audit import Exposures, Secrets
from unknot.core.errors import ConfigError
from unknot.core.requests import erase
from unknot.experiments.planted import SecretAudit, with_secrets

FEW = Secrets(number=6, candidates=127)


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    return speeches(tmp_path_factory.mktemp("play"))


@pytest.fixture(scope="module")
def exact(play):
    return with_secrets(spoken(play), FEW)


@pytest.mark.parametrize(
    "method",
    [
        "method={name='bmt'}",
        "method={name='mmt'}",
        "method={name='knot', clusters=2, by='random', served='ensemble'}",
        "method={name='fats', rounds=4, rho_client=3, local_steps=20}",
    ],
)
def test_secrets_are_exposed_before_the_erasure_and_not_after_it(play, method):
    found = with_secrets(spoken(play, method), FEW)
    assert found.before.verdict() == "still shows"
    assert found.same
    assert found.served.bits == found.controls[0].bits
    assert found.outcome == "no trace found"


def test_secrets_that_are_retrained_without_are_no_longer_exposed(exact):
    assert exact.before.verdict() == "still shows"
    assert exact.before.mean > 5 > exact.served.mean
    assert exact.same
    assert exact.outcome == exact.served.verdict(before=exact.before) == "no trace found"


def test_a_model_that_is_kept_as_it_is_still_exposes_them(play):
    found = with_secrets(spoken(play, method=Keeps()), FEW)
    assert found.outcome == "still shows"
    assert not found.same
    assert found.to_dict()["p"] <= 0.05
    assert found.served.mean > max(one.mean for one in found.controls)


def test_secrets_that_nobody_learned_say_nothing(play):
    found = with_secrets(spoken(play, "train.lr=1e-7", method=Keeps()), FEW)
    assert not found.same
    assert found.outcome == "no power"


def test_what_chance_says_of_a_model_that_is_its_control_is_not_said(exact):
    odd = Exposures((0,) * 6, 127)

    def outcome(same):
        return SecretAudit("x", "client 1", 0.05, FEW, 8, same, odd, odd, (), {}).outcome

    assert (outcome(True), outcome(False)) == ("no trace found", "still shows")


def test_the_record_of_secrets_says_what_it_stands_on(exact):
    record = json.loads(json.dumps(exact.to_dict(), allow_nan=False))
    assert (record["experiment"], record["erased"], record["level"]) == ("speakers", "client 1", 0.05)
    assert (record["tokens"], record["exposed"], record["outcome"]) == (8, True, "no trace found")
    assert record["secrets"]["candidates"] == 127
    assert record["seeds"] == {"controls": [1, 2, 3]}
    assert len(record["controls"]) == 4
    assert record["p"] == exact.served.two_sided
    assert len(record["before"]["bits"]) == 6


def test_what_makes_no_sense_is_refused_before_anything_is_trained(play):
    with pytest.raises(ConfigError, match="all of a client's samples"):
        with_secrets(spoken(play, requests=(erase({1: [0]}, round=1),)))
    with pytest.raises(ConfigError, match="between 0 and 1"):
        with_secrets(spoken(play), level=2)
    with pytest.raises(ConfigError, match="do not fit texts of 8 tokens"):
        with_secrets(spoken(play), Secrets(length=7))


def test_an_erasure_before_the_first_round_is_refused(play):
    with pytest.raises(ConfigError, match="in a later round"):
        with_secrets(spoken(play, "federation.rounds=1", requests=(erase(1, round=0),)), FEW)
