"""An experiment's federation on given data, with another seed, and with an engine that there is already."""

import numpy as np
import pytest

import unknot
from support import ToyEngine
from unknot.core.errors import ConfigError
from unknot.core.registry import engines
from unknot.engine import make_engine
from unknot.experiments import Experiment
from unknot.experiments.simulate import assemble, data_of, going
from unknot.federation.cohort import run_alone, run_together
from unknot.models import build

SMALL = {
    "data": {"name": "digits", "partition": "iid", "clients": 5, "samples": 12, "validation": 40},
    "train": {"lr": 0.1, "batch_size": 6},
    "federation": {"rounds": 2, "per_round": 3},
    "request": [{"erase": 1, "round": 1}],
}
EXPERIMENT = Experiment.of(SMALL)


@pytest.fixture(scope="module")
def data():
    return data_of(EXPERIMENT)


@pytest.fixture(scope="module")
def engine():
    return make_engine("stacked", build("mlp", (1, 28, 28), 10))


def drawn(fed):
    """Who was asked in each round."""
    return [record.clients for record in run_alone(going(fed, EXPERIMENT)).rounds]


def test_it_is_the_federation_that_the_experiment_prepares(data):
    here = run_alone(going(assemble(EXPERIMENT, data), EXPERIMENT))
    assert here.model.equal(unknot.run(EXPERIMENT).model)


def test_another_seed_leaves_the_data_and_changes_all_that_is_drawn(data, engine):
    feds = [assemble(EXPERIMENT, data, seed=seed, engine=engine) for seed in (0, 1)]
    first, other = feds
    assert first.data.train is other.data.train is data.train
    assert all(np.array_equal(first.data[c].rows, other.data[c].rows) for c in data)
    assert first.data.validation is other.data.validation
    assert not first.initial.equal(other.initial)
    assert first.state.key != other.state.key
    assert drawn(first) != drawn(other)
    assert not first.model.equal(other.model)


def test_the_experiments_own_seed_is_meant_where_none_is_given(data, engine):
    own, zero = (assemble(EXPERIMENT, data, engine=engine, **given) for given in ({}, {"seed": 0}))
    assert own.initial.equal(zero.initial)
    assert own.state.key == zero.state.key


def test_a_given_engine_is_the_one_that_trains(data, engine, monkeypatch):
    monkeypatch.setattr(engines, "make", None)  # none is made
    fed = assemble(EXPERIMENT, data, engine=engine)
    assert fed.engine is engine
    with pytest.raises(TypeError):
        assemble(EXPERIMENT, data)


def test_whose_engine_it_is_changes_no_bit(data, engine):
    given, made = (assemble(EXPERIMENT, data, seed=3, engine=one) for one in (engine, None))
    assert run_alone(going(given, EXPERIMENT)).model.equal(run_alone(going(made, EXPERIMENT)).model)


@pytest.mark.parametrize("model", [("mlp", {"hidden": [7]}), ("lenet5", {})], ids=["narrower", "another"])
def test_an_engine_for_another_model_is_refused_before_anything_is_trained(data, model):
    name, options = model
    other = make_engine("loop", build(name, (1, 28, 28), 10, **options))
    with pytest.raises(ConfigError, match="another model"):
        run_alone(going(assemble(EXPERIMENT, data, engine=other), EXPERIMENT))


def test_too_few_clients_for_a_round_are_refused(data):
    few = data.replaced(shards={client: data[client] for client in (0, 1)})
    with pytest.raises(ConfigError, match="only 2 clients"):
        assemble(EXPERIMENT, few, engine=ToyEngine())


def test_federations_of_one_experiment_go_together_on_data_on_loan(data, engine):
    def run(seed):
        return going(assemble(EXPERIMENT, data.lent(), seed=seed, engine=engine), EXPERIMENT)

    alone = [run_alone(run(seed)).model for seed in range(3)]
    together = [history.model for history in run_together(list(map(run, range(3))))]
    assert all(a.equal(b) for a, b in zip(alone, together, strict=True))
    assert not data.erased
