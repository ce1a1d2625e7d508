"""What several tests share: small federations, and an engine that takes no time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch
from torch import nn

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Job, Score, Update
from unknot.core.keys import Key
from unknot.core.requests import Request
from unknot.core.weights import Layout, Weights
from unknot.federation import Federation, Guarantee, Method, Served
from unknot.federation.inbox import Waiting
from unknot.federation.observers import Observers

LAYOUT = Layout(("w", "b"), ((2, 3), (2,)))


def grid(*axes: Iterable[object]) -> list[object]:
    """Every case of a grid; slow are all but a few, in which every value occurs.

    Of three axes or more, any two values of two axes meet in one of the few.
    """
    values = [list(axis) for axis in axes]
    sizes = list(map(len, values))
    cases = list(product(*map(range, sizes)))
    few = (
        {tuple(i % size for size in sizes) for i in range(max(sizes))} if len(axes) < 3 else _pairwise(cases)
    )
    return [
        pytest.param(
            *(axis[i] for axis, i in zip(values, case, strict=True)),
            marks=[] if case in few else [pytest.mark.slow],
        )
        for case in cases
    ]


def _pairwise(cases: Sequence[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Few of the cases, with every pair of values that is in any: each time the one with most of the rest."""
    pairs = {case: set(combinations(enumerate(case), 2)) for case in cases}
    missing = set().union(*pairs.values())
    few: set[tuple[int, ...]] = set()
    while missing:
        best = max(cases, key=lambda case: len(pairs[case] & missing))
        few.add(best)
        missing -= pairs[best]
    return few


def small_data(
    sizes: Sequence[int] = (5, 8, 3, 6, 7, 4), classes: int = 3, shape: tuple[int, ...] = (8,), seed: int = 0
) -> FederatedData:
    """Clients 0, 1, 2... with so many random samples each, and 12 of validation, of test, and of nobody's."""
    generator = Key.root(seed).child("small data").generator()

    def samples(n: int) -> Samples:
        y = generator.integers(0, classes, n)
        x = generator.standard_normal((n, *shape)) + y.reshape(-1, *[1] * len(shape))
        return Samples(torch.from_numpy(x).float(), torch.from_numpy(y), classes)

    ends = np.cumsum([0, *sizes])
    shards = {k: Shard.of(np.arange(ends[k], ends[k + 1])) for k in range(len(sizes))}
    return FederatedData(samples(int(ends[-1])), shards, samples(12), samples(12), public=samples(12).x)


class ToyEngine:
    """Pulls the weights towards numbers made of the client's data and the job's key: instantly.

    The result depends on every sample that is read, on the start and on the key, and on nothing else. `spoil`
    maps a client to a function that changes its update: a client that misbehaves.
    """

    name = "toy"

    def __init__(self, spoil=None) -> None:
        self.spoil = spoil or {}
        self.calls: list[list[Job]] = []

    def examine(self, samples: Samples) -> None:
        """Its model has nothing to hide."""

    def wipe(self) -> None:
        """It holds nothing of anybody."""

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        self.calls.append(list(jobs))
        updates = []
        for job in jobs:
            shard = job.shard(data)
            rows = shard.rows
            if job.batches is not None:
                rows = np.concatenate([shard.rows_of(batch) for batch in job.batches])
            x, y = data.train.take(torch.from_numpy(rows))
            pull = (x.double().sum() + (y.double() + 1).log().sum()) * 0.1
            noise = torch.from_numpy(job.key.uniform(np.arange(LAYOUT.size)))
            vector = 0.8 * job.start.vector + 0.2 * torch.sin(pull + noise).float()
            update = job.done(vector, len(shard), float(pull))
            updates.append(self.spoil.get(job.client, lambda u: u)(update))
        return updates

    def evaluate(self, model: Model, samples: Samples) -> Score:
        models = [w for _, w in model.parts] if isinstance(model, Ensemble) else [model]
        vector = torch.cat([weights.vector for weights in models])
        return Score(
            {"accuracy": float(vector.mean().sigmoid())}, float(vector.square().mean()), len(samples)
        )

    def predict(self, model: Model, samples: Samples) -> torch.Tensor:
        parts = model.parts if isinstance(model, Ensemble) else ((1.0, model),)
        mean = sum(factor * weights.vector.double() for factor, weights in parts)
        return torch.outer(samples.x.double().flatten(1).sum(1), mean[: samples.classes]).softmax(-1)

    def describe(self) -> dict[str, object]:
        return {"engine": self.name}


def toy_weights() -> Weights:
    return Weights(torch.linspace(-1, 1, LAYOUT.size), LAYOUT)


def toy_federation(method: Method, data: FederatedData | None = None, engine=None, **options) -> Federation:
    return Federation(engine or ToyEngine(), toy_weights(), data or small_data(), method, **options)


def watch(fed: Federation, observer) -> None:
    """From now on, and nobody else."""
    fed.work.observers = Observers([observer])


def serve_now(fed: Federation, request: Request) -> Served:
    """Serve a request between two runs, whatever its moment."""
    return fed.serving.serve(Waiting(request), 0)


def with_vector(update: Update, vector: torch.Tensor) -> Update:
    return replace(update, weights=replace(update.weights, vector=vector))


def half_frozen(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A model with a base, which the seed draws."""
    layers = nn.Linear(math.prod(shape), 8), nn.Tanh(), nn.Linear(8, classes)
    layers[0].requires_grad_(False)
    return nn.Sequential(nn.Flatten(), *layers)


class Keeps(Method):
    """Claims to forget, and goes on with the old numbers under a clean lineage."""

    name = "keeps"
    guarantee = Guarantee.EXACT

    def forget(self, desk, request, touched):
        for lane in touched:
            for node in lane.nodes.values():
                node.weights = desk.initial.like(node.weights.vector)
