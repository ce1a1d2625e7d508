"""FedAdam, FedYogi and FedAdagrad by hand, against a plain twin, and that their state begins again."""

import copy
import math

import numpy as np
import pytest
import torch

from support import LAYOUT, small_data, toy_federation
from unknot.core.errors import ConfigError, ForbiddenLineageError
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger, Lineage, Unit
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation import FedAdagrad, FedAdam, FedAvg, FedYogi
from unknot.federation.aggregators import new_aggregator
from unknot.unlearn import RFS

KINDS = {"fedadam": FedAdam, "fedyogi": FedYogi, "fedadagrad": FedAdagrad}
EXACT = {"tau": 1.0, "server_lr": 1.0}


def constant(value: float, *clients: int) -> Weights:
    vector = torch.full((LAYOUT.size,), value, dtype=torch.float64)
    return Weights(vector, LAYOUT, Lineage(Unit(c) for c in clients))


def update(client: int, value: float, samples: int, start: float = 0.0, version: int = 0) -> Update:
    job = Job(Unit(client), constant(start, 9), Key.root(0), Recipe(), version=version)
    return job.done(constant(value).vector, samples, 0.0)


def served(aggregate, *rounds: float) -> float:
    """From 10, a round for each mean change; every number of the model is the same."""
    model = constant(10.0, 5)
    for version, change in enumerate(rounds):
        start = float(model.vector[0])
        model = aggregate(model, [update(0, start + change, 10, start, version)], version, Ledger())
    assert len(set(model.vector.tolist())) == 1
    return float(model.vector[0])


def test_fedadam_by_hand():
    """Two rounds of change 2 and 4, β = (½, ¾), τ = 1, η = 1.
    m: 1, then ½·1 + ½·4 = 2.5; v: ¾·1 + ¼·4 = 1.75, then ¾·1.75 + ¼·16 = 5.3125."""
    expected = 10 + 1 / (math.sqrt(1.75) + 1)
    assert served(FedAdam(betas=(0.5, 0.75), **EXACT), 2) == pytest.approx(expected, rel=1e-14)
    expected += 2.5 / (math.sqrt(5.3125) + 1)
    assert served(FedAdam(betas=(0.5, 0.75), **EXACT), 2, 4) == pytest.approx(expected, rel=1e-14)


def test_fedyogi_by_hand():
    """v: 1 − ¼·4·sign(1 − 4) = 2, then 2 + ¼·16 = 6, then (change 1) 6 − ¼·1 = 5.75."""
    expected = 10 + 1 / (math.sqrt(2) + 1) + 2.5 / (math.sqrt(6) + 1) + 1.75 / (math.sqrt(5.75) + 1)
    assert served(FedYogi(betas=(0.5, 0.75), **EXACT), 2, 4, 1) == pytest.approx(expected, rel=1e-14)


def test_fedadagrad_by_hand():
    """Without momentum: v is 1 + 4 = 5, then 5 + 16 = 21."""
    expected = 10 + 2 / (math.sqrt(5) + 1) + 4 / (math.sqrt(21) + 1)
    assert served(FedAdagrad(**EXACT), 2, 4) == pytest.approx(expected, rel=1e-14)


def test_the_pseudo_gradient_is_the_mean_of_changes_by_samples_and_age():
    """Changes 1 (10 samples, fresh) and 4 (30 samples, three versions old, counts half):
    (10·1 + 30·4·½)/40 = 1.75; by heads (1 + 4·½)/2 = 1.5."""
    updates = [update(0, 2.0, 10, start=1.0, version=3), update(1, 5.0, 30, start=1.0, version=0)]
    for by_samples, mean in ((True, 1.75), (False, 1.5)):
        new = FedAdagrad(by_samples=by_samples, **EXACT)(constant(10.0, 5), updates, 3, Ledger())
        assert float(new.vector[0]) == pytest.approx(10 + mean / (math.sqrt(1 + mean**2) + 1), rel=1e-14)
        assert new.lineage.clients == {0, 1, 5, 9}


@pytest.mark.parametrize("name", KINDS)
def test_a_plain_twin_gives_the_same(name):
    """The paper's Algorithm 2 in numpy, over five rounds of random changes."""
    rng = np.random.default_rng(0)
    aggregate = KINDS[name]()
    beta1, beta2 = (0.0, 0.0) if name == "fedadagrad" else aggregate.betas
    model, x = constant(0.0), np.zeros(LAYOUT.size)
    m, v = np.zeros(LAYOUT.size), np.full(LAYOUT.size, aggregate.tau**2)
    for version in range(5):
        changes, samples = rng.normal(size=(3, LAYOUT.size)), np.array([4, 1, 5])
        jobs = [Job(Unit(c), model, Key.root(0), Recipe(), version=version) for c in range(3)]
        updates = [
            job.done(model.vector + torch.from_numpy(change), int(n), 0.0)
            for job, change, n in zip(jobs, changes, samples, strict=True)
        ]
        model = aggregate(model, updates, version, Ledger())
        delta = (changes * samples[:, None] / 10).sum(0)
        m = beta1 * m + (1 - beta1) * delta
        if name == "fedadam":
            v = beta2 * v + (1 - beta2) * delta**2
        elif name == "fedyogi":
            v = v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        else:
            v = v + delta**2
        x = x + aggregate.server_lr * m / (np.sqrt(v) + aggregate.tau)
        np.testing.assert_allclose(model.vector.numpy(), x, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS.values())
def test_one_that_is_made_anew_has_seen_nothing_and_has_the_same_settings(kind):
    used = kind(server_lr=0.3, tau=0.5)
    once = served(used, 2.0)
    assert used._first is not None
    again = new_aggregator(used)
    assert again == used == kind(server_lr=0.3, tau=0.5)
    assert again._first is again._second is None
    assert served(again, 2.0) == once
    assert served(copy.deepcopy(used), 2.0) != once  # a copy goes on from the state


@pytest.mark.parametrize("kind", KINDS.values())
def test_moments_know_whose_they_are_and_are_refused_once_that_is_erased(kind):
    aggregate, ledger = kind(), Ledger()
    aggregate(constant(1.0), [update(3, 2.0, 1)], 0, ledger)
    ledger.forbid(3)
    with pytest.raises(ForbiddenLineageError, match="client 3"):
        aggregate(constant(1.0), [update(4, 2.0, 1)], 1, ledger)


@pytest.mark.parametrize("kind", KINDS.values())
def test_impossible_settings_are_refused(kind):
    rates = {"beta": 1.0} if kind is FedAdagrad else {"betas": (0.9, 1.0)}
    for options in ({"server_lr": 0.0}, {"tau": 0.0}, {"exponent": -1.0}, {"server_lr": math.inf}, rates):
        with pytest.raises(ConfigError, match=rf"{kind.__name__}: {next(iter(options))}"):
            kind(**options)


@pytest.mark.parametrize("kind", KINDS.values())
def test_the_record_of_a_run_names_the_settings_and_no_state(kind):
    fed = toy_federation(RFS(), small_data((3, 4)), aggregate=kind(tau=0.5))
    setup = fed.run(2).setup["aggregate"]
    assert setup["kind"] == kind.__name__
    assert setup["tau"] == 0.5
    assert not any(name.startswith("_") for name in setup)
    plain = toy_federation(RFS(), small_data((3, 4)), aggregate=FedAvg())
    assert not plain.run(2).model.equal(fed.model)
