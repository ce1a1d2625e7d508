"""`unknot audit` from the inside: an experiment, its control, the shadows."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from unknot.core.errors import ConfigError
from unknot.core.recipe import SGD, Recipe
from unknot.core.requests import erase, join
from unknot.experiments import Experiment, audited, prepare
from unknot.experiments.audited import audit, backdoor, central

FILE = """
name = "by heart"
[data]
partition = "iid"
clients = 3
samples = 100
validation = 50
[train]
lr = 0.05
epochs = 2
batch_size = 10
[federation]
rounds = 70
[[request]]
erase = 1
round = 10
"""


def experiment(*overrides):
    return Experiment.of(tomllib.loads(FILE), overrides)


def test_an_exact_method_passes_and_is_the_control():
    found = audit(experiment(), shadows=8)
    assert found.verdict == "passed"
    assert found.same
    assert (found.erased, found.members, found.others) == ("client 1", 100, 300)
    assert found.steps == 60 * 20
    assert found.divergence["served"] == found.divergence["control"]
    assert found.divergence["kept"].erased == 1.0
    assert found.divergence["kept"].forgetting_error > 0.05
    assert set(found.seconds) == {"served", "control", "kept", "shadows"}
    record = json.loads(json.dumps(found.to_dict()))
    assert record["verdict"] == "passed"
    assert len(record["findings"][0]["served"]["scores"]["members"]) == 100


def test_what_forgot_nothing_is_flagged(monkeypatch):
    """The run claims to have served the request, and serves what it had before."""

    def negligent(asked, change):
        history = prepare(asked).run(60)
        return replace(history, unserved=[])

    monkeypatch.setattr(audited, "run", negligent)
    found = audit(experiment(), shadows=8)
    assert found.verdict == "flagged"
    assert not found.same
    assert all(f.served.auc == f.kept.auc for f in found.findings)


def test_where_there_is_nothing_to_find_the_audit_does_not_pass():
    """A client that was never asked left nothing, so that even the kept model does not show it."""
    short = experiment("federation.rounds=2", "federation.per_round=1", "request=[]")
    asked = {client for round in prepare(short).run(2).rounds for client in round.clients}
    (idle, *_) = {0, 1, 2} - asked
    found = audit(replace(short, requests=(erase(idle, round=1),)), shadows=4, others=100)
    assert found.verdict == "no power"
    assert found.same
    assert found.others == 100


def test_the_members_are_the_erased_samples_that_nobody_else_holds():
    asked = experiment("data.overlap=true", "data.samples=4000")
    data = prepare(asked).data
    rest, erased = audited.parted(data, [erase(1, round=1)])
    assert not set(erased) & (set(data[0].rows) | set(data[2].rows))
    assert set(erased) == set(data[1].rows) - set(data[0].rows) - set(data[2].rows)
    assert len(rest) == 8000
    rest, erased = audited.parted(prepare(experiment()).data, [erase({1: [5, 2]}, round=1)])
    assert set(erased) == set(prepare(experiment()).data[1].rows[[2, 5]])
    assert len(rest) == 298


def test_shadows_take_as_many_steps_as_one_client():
    recipe = central(Recipe(SGD(0.1), epochs=3, batch_size=10, proximal=0.5), steps=100, samples=95)
    assert recipe.steps(95) == 100
    assert recipe.epochs == 10
    assert recipe.proximal == 0


def test_what_cannot_be_audited_is_said():
    for requests in ((), (join(1, round=2),), (erase(1, round=2), join(2, round=1))):
        with pytest.raises(ConfigError, match="erase requests"):
            audit(replace(experiment(), requests=requests))
    with pytest.raises(ConfigError, match="everybody is erased"):
        audit(replace(experiment(), requests=(erase([0, 1, 2], round=2),)))
    few = experiment("federation.rounds=2", "request=[{erase=1, round=1}]")
    with pytest.raises(ConfigError, match="2000 test samples"):
        audit(few, others=2001)
    with pytest.raises(ConfigError, match="in pairs"):
        audit(few, shadows=3)
    with pytest.raises(ConfigError, match="nobody else holds"):
        audited.parted(_twins(), [erase(1, round=1)])


def _twins():
    data = prepare(experiment()).data
    return data.replaced(shards={0: data[0], 1: data[0]})


def test_an_audit_repeats():
    few = experiment("federation.rounds=3", "request=[{erase=1, round=1}]")
    first, again = (audit(few, shadows=4, others=100) for _ in range(2))
    for a, b in zip(first.findings, again.findings, strict=True):
        assert np.array_equal(a.served.curve.members, b.served.curve.members)
        assert a.served.auc == b.served.auc


def test_a_mark_is_forgotten_by_an_exact_method_and_kept_by_what_forgets_nothing(monkeypatch):
    """The kept model answers to it, what is retrained does not; a run that only claims to is flagged."""
    found = backdoor(experiment())
    assert found.answers["kept"].value > 0.9
    assert found.answers["served"] == found.answers["control"]
    assert found.verdict == "passed"
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == "passed"

    def negligent(asked, change):
        return replace(prepare(asked, change=change).run(60), unserved=[])

    monkeypatch.setattr(audited, "run", negligent)
    assert backdoor(experiment()).verdict == "flagged"


def test_only_whole_clients_are_marked():
    some = replace(experiment(), requests=(erase({1: [0, 1]}, round=10),))
    with pytest.raises(ConfigError, match="all of a client's samples"):
        backdoor(some)
