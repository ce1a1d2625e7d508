"""The models of the papers, stacked, end where the plain loop ends: each optimiser, unequal clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine_worlds import make_jobs, mean
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.keys import Key
from unknot.core.training import SGD, AdaHessian, Adam, AdamW, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.models import build

MODELS = {
    "mlp": ("mlp", (1, 28, 28), {}),
    "lenet5": ("lenet5", (1, 28, 28), {}),
    "lenet5 in colour": ("lenet5", (3, 32, 32), {}),
    "cnn-exact": ("cnn-exact", (3, 32, 32), {}),
    "cnn-incentive": ("cnn-incentive", (1, 28, 28), {}),
    "gpt": ("gpt", (12,), {"layers": 2, "heads": 2, "width": 32}),
}
OPTIMIZERS = {
    "sgd": SGD(0.05, weight_decay=0.01),
    "momentum": SGD(0.02, momentum=0.9),
    "adam": Adam(0.001, eps=1e-3),
    "adamw": AdamW(0.001, eps=1e-3),
    "adahessian": AdaHessian(0.02, eps=0.5),
}
SIZES = (5, 1, 3)


def real_data(shape: tuple[int, ...], seed: int) -> FederatedData:
    generator = Key.root(seed).child("data", len(shape)).generator()
    total = sum(SIZES)
    if len(shape) == 1:
        words = torch.from_numpy(generator.integers(0, 20, (total, shape[0] + 1)))
        samples = Samples(words[:, :-1].contiguous(), words[:, 1:].contiguous(), 20)
    else:
        x = torch.from_numpy(generator.standard_normal((total, *shape), dtype=np.float32))
        samples = Samples(x, torch.from_numpy(generator.integers(0, 10, total)), 10)
    ends = np.cumsum([0, *SIZES])
    shards = {i: Shard.of(np.arange(ends[i], ends[i + 1])) for i in range(len(SIZES))}
    return FederatedData(samples, shards, samples)


def distance(
    model: str, shape, options, recipe: Recipe, dtype: torch.dtype, rounds=10, path="auto", seed=0
) -> float:
    """How far the stacked engine ends from the loop, after chained rounds."""
    data = real_data(shape, seed)
    with Key.root(0).child("init").torch_seed():
        network = build(model, shape, data.train.classes, **options)
    loop = LoopEngine(network, dtype=dtype, threads=1)
    stacked = StackedEngine(network, dtype=dtype, threads=1, path=path)
    slow = fast = start = Weights.of(network).to(dtype=dtype)
    for round in range(rounds):
        slow = mean(loop.train(make_jobs(network, recipe, data.clients, round=round, start=slow), data))
        fast = mean(stacked.train(make_jobs(network, recipe, data.clients, round=round, start=fast), data))
    assert (slow.vector - start.vector).abs().max() > 1e-3  # it did learn something
    if path == "auto" and model != "vgg16":
        assert stacked.describe()["path"] in ("fused", "batched")
    return float((fast.vector - slow.vector).abs().max())


# What is tried in every run of the tests: every model and every optimiser, some with and some without
# convolutions.
SHORT = {
    "mlp": ("sgd", "adam"),
    "lenet5": ("momentum", "adahessian"),
    "lenet5 in colour": ("sgd",),
    "cnn-exact": ("sgd",),
    "cnn-incentive": ("adamw",),
    "gpt": ("momentum", "adam", "adamw", "adahessian"),
}
SINGLE = ("mlp", "lenet5", "cnn-incentive", "gpt")  # and by SGD alone in single precision


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        pytest.param(model, optimizer, marks=[] if optimizer in SHORT[model] else [pytest.mark.slow])
        for model in MODELS
        for optimizer in OPTIMIZERS
    ],
)
def test_ten_rounds_end_where_the_loop_ends_in_double_precision(model, optimizer):
    recipe = Recipe(OPTIMIZERS[optimizer], batch_size=2)
    assert distance(*MODELS[model], recipe, torch.float64) <= 1e-9


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        pytest.param(
            model, optimizer, marks=[] if model in SINGLE and optimizer == "sgd" else [pytest.mark.slow]
        )
        for model in MODELS
        for optimizer in OPTIMIZERS
    ],
)
def test_ten_rounds_end_where_the_loop_ends_in_single_precision(model, optimizer):
    """On two of three draws of data, at the least.

    Where two numbers of a max pool agree to 1e-7, single precision may take the one or the other, and
    gradients then differ by a finite amount: the loop's own, too, from those in double precision.
    That happens once in some hundred thousand pools.
    """
    recipe = Recipe(OPTIMIZERS[optimizer], batch_size=2)
    good = 0
    for draw in range(3):
        good += distance(*MODELS[model], recipe, torch.float32, seed=draw) <= 1e-4
        if good == 2:
            return
    pytest.fail(f"agrees on {good} of 3 draws only")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["auto", "batched"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ten_rounds_of_vgg_16_end_where_the_loop_ends(optimizer, path):
    """At half the width; by itself the engine takes the loop for convolutions of that size.

    Single precision is held on that path only: asked for `batched`, adaptive optimisers end 1e-2 from
    the loop (in double precision 1e-9: rounding that the network amplifies, by ties most likely).
    """
    recipe = Recipe(OPTIMIZERS[optimizer], batch_size=2)
    vgg = ("vgg16", (3, 32, 32), {"width": 32})
    assert distance(*vgg, recipe, torch.float64, path=path) <= 1e-9
    if path == "auto":
        assert distance(*vgg, recipe, torch.float32) <= 1e-4


@pytest.mark.slow
def test_vgg_16_batched_ends_where_the_loop_ends():
    """One round of the above, in every run of the tests."""
    recipe = Recipe(SGD(0.05), batch_size=2)
    options = {"width": 32}
    assert distance("vgg16", (3, 32, 32), options, recipe, torch.float64, 1, "batched") <= 1e-9
