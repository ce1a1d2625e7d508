import pytest
import torch
from torch import nn

import unknot
from unknot.core.errors import ConfigError, RequestError
from unknot.experiments import Experiment, prepare

SMALL = {
    "data": {"name": "digits", "partition": "iid", "clients": 6, "samples": 30, "validation": 100},
    "train": {"lr": 0.1, "batch_size": 10},
    "federation": {"rounds": 4},
}


def small(*overrides: str) -> Experiment:
    return Experiment.of(SMALL, overrides)


def test_an_experiment_repeats_itself_bit_for_bit():
    a, b, c = unknot.run(small()), unknot.run(small()), unknot.run(small("seed=1"))
    assert a.model.equal(b.model)
    assert not a.model.equal(c.model)
    assert [r.accuracy for r in a.rounds] == [r.accuracy for r in b.rounds]


def test_the_global_generator_neither_matters_nor_changes():
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    a = unknot.run(small())
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert a.model.equal(unknot.run(small()).model)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_rfs_is_exact_on_real_digits(engine):
    """The whole stack: erase client 2 after 2 of 4 rounds, and never have had it, for 2 rounds."""
    erased = small(f"engine.name={engine}", "request=[{erase = 2, round = 2}]")
    fed = prepare(small(f"engine.name={engine}", "federation.rounds=2"))
    fed.data.erase(2)
    assert unknot.run(erased).model.equal(fed.run(2).model)


def test_python_and_toml_give_the_same_run():
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=6, samples=30), validation=100)
    fed = unknot.simulate("mlp", data, "rfs", unknot.Recipe(unknot.SGD(0.1), batch_size=10))
    assert fed.run(4).model.equal(unknot.run(small()).model)


def test_a_module_starts_from_its_own_parameters():
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=2, samples=10), validation=0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    fed = unknot.simulate(model, data)
    assert torch.equal(fed.initial["1.weight"], model[1].weight)
    made = unknot.simulate(lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), data, seed=4)
    again = unknot.simulate(lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), data, seed=4)
    assert made.initial.equal(again.initial)


def test_training_learns_and_recovers():
    """Digits in 6 rounds: well above the 10 % of chance, before the erasure and after."""
    history = unknot.run(
        small("data.samples=200", "federation.rounds=12", "request=[{erase = 1, round = 6}]")
    )
    (served,) = history.served
    assert served.before["validation"].accuracy > 0.7
    assert served.after["validation"].accuracy < 0.3
    assert history.scores["validation"].accuracy > 0.7
    assert history.recovery(served, 0.9).reached


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("federation.per_round=7", ConfigError, "only 6 clients: lower it or raise data.clients"),
        ("model.name=lenet", ConfigError, "Did you mean 'lenet5'"),
        ("model.name=gpt", ConfigError, "gpt"),
        ("model.widht=3", ConfigError, "widht"),
        ("engine.device=cuda:99", ConfigError, "device"),
        ("engine.device=abacus", ConfigError, "device"),
        ("data.samples=100000", ConfigError, "samples"),
        ("request=[{erase = 6, round = 1}]", RequestError, "cannot erase client 6"),
        ("request=[{erase = 1, round = 9}]", RequestError, "ends after 4 rounds"),
    ],
)
def test_what_cannot_be_run_is_refused_before_training(override, error, message):
    with pytest.raises(error, match=message):
        unknot.run(small(override))
