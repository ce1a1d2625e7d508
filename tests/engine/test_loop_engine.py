"""The oracle's bits do not depend on threads, nor on which engine runs it; it evaluates as it is served."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine_worlds import RECIPES, make_data, make_jobs, make_model, same
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Ensemble
from unknot.core.keys import Key
from unknot.core.training import SGD, Recipe
from unknot.engine import LoopEngine, StackedEngine


def wide() -> tuple[nn.Module, FederatedData, Recipe]:
    """Operations so large that PyTorch would split them among threads."""
    with Key.root(1).torch_seed():
        network = nn.Sequential(nn.Linear(300, 500), nn.LayerNorm(500), nn.GELU(), nn.Linear(500, 3))
    draw = Key.root(2).generator()
    x = torch.from_numpy(draw.standard_normal((700, 300), dtype=np.float32))
    samples = Samples(x, torch.from_numpy(draw.integers(0, 3, 700)), 3)
    shards = {i: Shard.of(range(140 * i, 140 * i + 140)) for i in range(5)}
    return network, FederatedData(samples, shards, samples), Recipe(SGD(0.1), batch_size=70)


def answers(engine, network, data, recipe):
    jobs = make_jobs(network, recipe, data.clients)
    updates = engine.train(jobs, data)
    ensemble = Ensemble(((1.0, updates[0].weights), (2.0, updates[1].weights)))
    models = (updates[0].weights, ensemble)
    scores = [engine.evaluate(model, data.train) for model in models]
    return updates, scores, [engine.predict(model, data.train) for model in models]


def test_threads_change_no_bit_of_the_loop_engine():
    network, data, recipe = wide()
    engines = [LoopEngine(network, threads=threads) for threads in (1, 2, 3, None)]
    engines += [StackedEngine(network, path="loop", threads=threads) for threads in (1, 2)]
    first, *rest = [answers(engine, network, data, recipe) for engine in engines]
    for updates, scores, predictions in rest:
        assert all(map(same, first[0], updates))
        assert scores == first[1]
        assert all(map(torch.equal, predictions, first[2]))


@pytest.mark.parametrize("recipe", ["adamw", "adahessian"])
@pytest.mark.parametrize("model", ["mlp", "norm", "text", "loop"])
def test_the_stacked_engines_loop_is_the_loop_engine(model, recipe):
    network, data = make_model(model), make_data(model)
    jobs = make_jobs(network, RECIPES[recipe], data.clients)
    loop = LoopEngine(network, threads=2).train(jobs, data)
    assert all(map(same, loop, StackedEngine(network, path="loop", threads=1).train(jobs, data)))


class SaysItsMode(nn.Module):
    """Sure of class 0 when it is trained, of class 1 when it is evaluated."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * 0 + torch.tensor([9.0, 0.0] if self.training else [0.0, 9.0])


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_evaluation_is_in_evaluation_mode(engine):
    network = SaysItsMode()
    samples = Samples(torch.rand(4, 2), torch.ones(4).long(), 2)
    data = FederatedData(samples, {0: Shard.of([0, 1])}, samples)
    machine = engine(network, threads=1)
    jobs = make_jobs(network, RECIPES["sgd"], [0])
    start = jobs[0].start
    for model in (start, Ensemble(((1.0, start), (1.0, start)))):
        for ask in (lambda m: machine.evaluate(m, samples).accuracy, lambda m: right(machine, m, samples)):
            (update,) = machine.train(jobs, data)
            assert update.loss > 5  # training was in training mode
            assert ask(model) == 1.0


def right(engine, model, samples) -> float:
    return (engine.predict(model, samples).argmax(-1) == samples.y).double().mean().item()
