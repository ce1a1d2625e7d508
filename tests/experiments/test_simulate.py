from dataclasses import replace

import pytest
import torch
from torch import nn

import unknot
from exactness import assert_as_if_never_there, assert_no_interference
from support import grid
from unknot.core.errors import ConfigError, RequestError
from unknot.experiments import Experiment
from unknot.testing import small_data

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


PACES = {
    "sync": {"pace": unknot.Synchronous(per_round=4)},
    "async": {
        "pace": unknot.Buffered(4, 2, staleness_bound=3),
        "aggregate": unknot.FedBuff(),
        "clock": unknot.Clock(unknot.Pareto()),
    },
}
METHODS = {"rfs": unknot.RFS(), "rapid": unknot.Rapid(unknot.AdaHessian(0.05))}


ERASED = {"a client": {2: None}, "samples": {2: [0, 7, 11]}}
BY = ["stacked mlp", "stacked lenet5", "loop mlp"]


@pytest.mark.parametrize(("by", "method", "pace", "what"), grid(BY, METHODS, PACES, ERASED))
def test_forgetting_is_exact_on_real_digits(by, method, pace, what):
    """The whole stack, nothing replaced: real models, real engines, real samples."""
    engine, model = by.split()
    data = unknot.federate(unknot.load("digits"), unknot.Iid(clients=6, samples=12), validation=50)
    recipe = unknot.Recipe(unknot.SGD(0.1, momentum=0.5), batch_size=5)

    def open(variant, method=METHODS[method], recipe=recipe):
        return unknot.simulate(model, variant, method, recipe, engine=engine, evaluate_every=0, **PACES[pace])

    def open_without(variant):
        if method == "rfs":
            return open(variant)
        return open(variant, recipe=replace(recipe, optimizer=METHODS[method].optimizer))

    request = unknot.erase(ERASED[what], round=2)  # by then client 2 has taken part: everything is retrained
    assert_no_interference(open, data, request, rounds=3)
    assert_as_if_never_there(open, data, request, rounds=3, open_without=open_without)


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
    ],
)
def test_what_cannot_be_run_is_refused_before_training(override, error, message):
    with pytest.raises(error, match=message):
        unknot.run(small(override))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": {"G": ([[1.0]], [0])}}, r"not dict: make it by unknot.clients\(...\)"),
        ({"model": None}, "model is a name, a module, or a function .*not None"),
        ({"model": nn.Linear}, r"Linear cannot be made without arguments .*lambda: Linear\(...\)"),
        ({"model": lambda: 3}, r"no torch.nn.Module, but int"),
        ({"method": unknot.RFS}, r"method is a class: give an instance, RFS\(\)"),
        ({"method": 3}, r"method is a name, or a Method .*not 3"),
        ({"recipe": {"lr": 0.1}}, r"recipe must be a Recipe: write unknot.Recipe\(...\)"),
    ],
)
def test_what_is_of_another_kind_is_refused_with_what_to_write(given, words):
    with pytest.raises(ConfigError, match=words):
        unknot.simulate(**{"model": "mlp", "data": small_data(), **given})


@pytest.mark.parametrize("rounds", ["2", 2.5])
def test_rounds_are_a_whole_number(rounds):
    with pytest.raises(ConfigError, match="rounds must be a whole number"):
        unknot.simulate("mlp", small_data()).run(rounds)


def test_a_score_without_accuracy_says_what_there_is():
    score = unknot.core.jobs.Score({"f1": 0.5}, 0.1, 3)
    assert not hasattr(score, "accuracy")
    with pytest.raises(AttributeError, match=r"measured by f1: use .value"):
        _ = score.accuracy


def test_a_device_whose_memory_is_full_says_so(monkeypatch):
    def full(*shape, **options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB.\nSee documentation")

    data = small_data()
    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(ConfigError) as error:
        unknot.simulate("mlp", data)
    told = (
        "device: cannot train on 'cpu' (CUDA out of memory. Tried to allocate 2 MiB.); this machine has cpu"
    )
    assert str(error.value).startswith(told)
    assert "documentation" not in str(error.value)
