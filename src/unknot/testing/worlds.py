"""Small worlds to try things in: a few clients, an engine that takes no time, paces of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Job, Score, Update
from unknot.core.keys import Key
from unknot.core.lineage import Ledger
from unknot.core.weights import Layout, Weights, weighted_sum
from unknot.federation import Buffered, Clock, FedBuff, Pareto, Synchronous

SIZES = (5, 8, 3, 6, 7, 4, 9, 2)
LAYOUT = Layout(("w", "b"), ((2, 3), (2,)))


def small_data(
    sizes: Sequence[int] = SIZES,
    classes: int = 3,
    shape: tuple[int, ...] = (8,),
    seed: int = 0,
    kind: str = "classes",
) -> FederatedData:
    """Clients 0, 1, 2... with so many drawn samples each; 12 of validation, of test, and without targets.

    Targets are "classes", several "labels" at once, or as many "values".
    """
    generator = Key.root(seed).child("small data").generator()

    def samples(n: int) -> Samples:
        y: NDArray[Any] = generator.integers(0, classes, n)
        x = generator.standard_normal((n, *shape)) + y.reshape(-1, *[1] * len(shape))
        if kind == "labels":
            y = generator.integers(0, 2, (n, classes))
        elif kind == "values":
            y = y[:, None] + generator.standard_normal((n, classes))
        return Samples(torch.from_numpy(x).float(), torch.from_numpy(y), classes, kind)

    ends = np.cumsum([0, *sizes])
    shards = {k: Shard.of(np.arange(ends[k], ends[k + 1])) for k in range(len(sizes))}
    train, test, validation = (samples(n) for n in (int(ends[-1]), 12, 12))
    return FederatedData(train, shards, test, validation, public=samples(12).x)


def toy_weights() -> Weights:
    """Where a federation with a `ToyEngine` starts."""
    return Weights(torch.linspace(-1, 1, LAYOUT.size), LAYOUT)


class ToyEngine:
    """Pulls the weights towards numbers made of the client's data and the job's key: instantly.

    The result depends on every sample that is read, on the start, on the recipe and on the key, and on
    nothing else: enough to see whose data a model has seen.
    """

    name = "toy"

    def examine(self, samples: Samples) -> None:
        """Its model has nothing to hide."""

    def wipe(self) -> None:
        """It holds nothing of anybody."""

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        return [self._trained(job, data) for job in jobs]

    @staticmethod
    def _trained(job: Job, data: FederatedData) -> Update:
        shard = job.shard(data)
        rows = shard.rows
        if job.batches is not None:
            rows = np.concatenate([shard.rows_of(batch) for batch in job.batches])
        x, y = data.train.x.numpy()[rows], data.train.y.numpy()[rows]
        pull = 0.1 * float(x.sum(dtype=np.float64)) + float(np.log1p(np.abs(y)).sum())
        pull += job.recipe.epochs + getattr(job.recipe.optimizer, "lr", 0.0)
        towards = np.sin(pull + job.key.uniform(np.arange(job.start.layout.size)))
        vector = 0.8 * job.start.vector + torch.from_numpy(0.2 * towards).to(job.start.vector.dtype)
        return job.done(vector, len(shard), pull)

    def evaluate(self, model: Model, samples: Samples) -> Score:
        models = [w for _, w in model.parts] if isinstance(model, Ensemble) else [model]
        vector = torch.cat([weights.vector for weights in models])
        accuracy = float(vector.mean().sigmoid())
        return Score({"accuracy": accuracy}, float(vector.square().mean()), len(samples))

    def predict(self, model: Model, samples: Samples) -> Tensor:
        parts = model.parts if isinstance(model, Ensemble) else ((1.0, model),)
        mean = torch.stack([factor * weights.vector.double() for factor, weights in parts]).sum(0)
        return torch.outer(samples.x.double().flatten(1).sum(1), mean[: samples.classes]).softmax(-1)

    def describe(self) -> dict[str, object]:
        return {"engine": self.name}


class Steady(Clock):
    """Clients differ in speed, but none in how much it reads.

    How much data a leaver had shows in how long it took, and so in when others were asked: what a method
    that keeps models cannot take back, and says so. Here it is held still.
    """

    def duration(self, client: int, samples_read: int, key: Key) -> int:
        return super().duration(client, 1, key)


@dataclass
class ServerMomentum:
    """An aggregator with a state."""

    state: list[Weights] = field(default_factory=list, init=False)

    def fresh(self) -> ServerMomentum:
        return ServerMomentum()

    def __call__(self, current: Weights, updates: Sequence[Update], version: int, ledger: Ledger) -> Weights:
        terms = [(1 / len(updates), update.step) for update in updates]
        moved = weighted_sum([*terms, *((0.5, old) for old in self.state)], ledger, "aggregate an update")
        self.state = [moved]
        return current + moved


def paces(steady: bool) -> dict[str, dict[str, Any]]:
    """Three a round, and a buffered pace with clients of all speeds: parts of a `Setup`."""
    clock = Steady if steady else Clock
    return {
        "synchronous": {"pace": Synchronous(3), "clock": clock()},
        "buffered": {"pace": Buffered(4, 2, 3), "aggregate": FedBuff(), "clock": clock(Pareto())},
    }
