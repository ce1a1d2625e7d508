"""The papers' models on small data, and how far two engines end from each other with them."""

from __future__ import annotations

from typing import Any

import numpy as np
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
VGG = ("vgg16", (3, 32, 32), {"width": 32})  # at half the width
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
    model: str,
    shape: tuple[int, ...],
    options: dict[str, Any],
    recipe: Recipe,
    dtype: torch.dtype,
    rounds: int = 10,
    path: str = "auto",
    seed: int = 0,
    device: str = "cpu",
) -> float:
    """How far the stacked engine ends from the loop on the same device, after chained rounds."""
    data = real_data(shape, seed)
    with Key.root(0).child("init").torch_seed():
        network = build(model, shape, data.train.classes, **options)
    loop = LoopEngine(network, dtype=dtype, threads=1, device=device)
    stacked = StackedEngine(network, dtype=dtype, threads=1, path=path, device=device)
    slow = fast = start = Weights.of(network).to(dtype=dtype, device=device)
    for round in range(rounds):
        slow = mean(loop.train(make_jobs(network, recipe, data.clients, round=round, start=slow), data))
        fast = mean(stacked.train(make_jobs(network, recipe, data.clients, round=round, start=fast), data))
    assert (slow.vector - start.vector).abs().max() > 1e-3  # it did learn something
    if path == "auto" and model != "vgg16":
        assert stacked.describe()["path"] in ("fused", "batched")
    return float((fast.vector - slow.vector).abs().max())
