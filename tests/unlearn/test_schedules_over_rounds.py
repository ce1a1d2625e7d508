"""A learning rate that falls over rounds begins again with the model: exact methods stay exact."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import unknot
from exactness import assert_as_if_never_there, assert_no_interference
from support import small_data
from unknot.unlearn import BMT, FATS, MMT, RFS, FedCIO, Standalone

SCHEDULES = {
    "cosine": unknot.Cosine(8, floor=0.1, over="rounds", warmup=2),
    "step": unknot.StepDecay(2, 0.5, over="rounds"),
}
METHODS = {
    "rfs": RFS(),
    "fedcio": FedCIO(clusters=2),
    "fats": FATS(rho_client=5, rounds=20, local_steps=2, clients=8),
    "standalone": Standalone(),
    "bmt": BMT(),
    "mmt": MMT(),
}
REQUEST = unknot.erase(1, round=3)


def opened(method, schedule, engine="stacked", pace=None, momentum=0.0):
    recipe = unknot.Recipe(unknot.SGD(0.2, momentum=momentum), batch_size=4, schedule=SCHEDULES[schedule])
    options = {} if pace is None else {"pace": pace}

    def network():
        return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))

    return lambda data: unknot.simulate(
        network, data, method, recipe, engine=engine, threads=1, evaluate_every=0, **options
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_retraining_is_the_federation_that_never_had_the_client(engine, schedule):
    start = opened(RFS(), schedule, engine)
    assert_no_interference(start, small_data(), REQUEST, rounds=3)
    assert_as_if_never_there(start, small_data(), REQUEST, rounds=3)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_served_does_not_depend_on_what_was_erased(name):
    assert_no_interference(opened(METHODS[name], "cosine"), small_data(), REQUEST, rounds=3)


@pytest.mark.parametrize("name", ["fats", "standalone"])
def test_methods_that_go_back_go_back_to_the_rate_of_then(name):
    assert_as_if_never_there(opened(METHODS[name], "cosine"), small_data(), REQUEST, rounds=3)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_it_holds_with_momentum_and_for_clients_of_several_versions_at_once(engine):
    start = opened(RFS(), "step", engine, pace=unknot.Buffered(per_round=4, minimum=2), momentum=0.9)
    assert_no_interference(start, small_data(), REQUEST, rounds=3)


def test_the_rate_is_that_of_the_round():
    """After two rounds there is no rate left: whatever is trained, the model stays where it is."""
    recipe = unknot.Recipe(unknot.SGD(0.2), schedule=unknot.Cosine(2, over="rounds"))
    fed = unknot.simulate(lambda: nn.Linear(8, 3), small_data(), "rfs", recipe, evaluate_every=0)
    start, first, later = fed.model, fed.run(2).model, fed.run(3).model
    assert (first.vector - start.vector).abs().max() > 0.01
    assert torch.allclose(later.vector, first.vector, rtol=0, atol=1e-6)  # a mean of equals has rounding
