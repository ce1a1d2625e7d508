"""unknot: retraining from scratch as the method (plain federated averaging until a request comes).

Nothing is tuned: the stacked engine with its defaults.
"""

from __future__ import annotations

import time
from importlib.metadata import version

import numpy as np
from torch import Tensor

from benchmarks.peers.common import (
    SEED,
    Workload,
    arguments,
    make_data,
    make_model,
    mean_loss,
    peak_memory,
    report,
    since_start,
)
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Event, Federation, Synchronous
from unknot.models import build
from unknot.unlearn import RFS


def federated(x: Tensor, y: Tensor) -> FederatedData:
    """``[clients, samples, ...]`` as unknot's data, with nothing to evaluate on."""
    clients, samples = y.shape
    rows = np.arange(clients * samples).reshape(clients, samples)
    train = Samples(x.flatten(0, 1), y.flatten(), classes=10)
    shards = {client: Shard.of(rows[client]) for client in range(clients)}
    return FederatedData(train, shards, test=Samples(train.x[:0], train.y[:0], classes=10))


def federation(workload: Workload, data: FederatedData, times: list[float]) -> Federation:
    """Federated averaging as the other contestants run it; `times` gets the end of every round."""
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    model.load_state_dict(make_model(workload).state_dict())  # also: it is the same network

    def note(event: Event) -> None:
        times.append(time.perf_counter())

    return Federation(
        StackedEngine(model),
        Weights.of(model),
        data,
        RFS(),
        Recipe(SGD(workload.lr), epochs=1, batch_size=workload.batch),
        pace=Synchronous(workload.per_round),
        seed=SEED,
        evaluate_every=0,
        observers=[note],
    )


def main() -> None:
    name, workload, options = arguments()
    x, y = make_data(workload)
    times: list[float] = []
    fed = federation(workload, federated(x, y), times)
    startup = since_start()
    started = time.perf_counter()
    before = dict(fed.run(rounds=1).seconds)
    warmup = time.perf_counter() - started
    history = fed.run(rounds=options.rounds)
    memory = peak_memory()
    spent = {part: history.seconds[part] - before[part] for part in before}
    assert history.model is not None
    seconds = np.diff(times).tolist()
    report(
        "unknot",
        name,
        startup=startup,
        warmup=warmup,
        seconds=seconds,
        loss=mean_loss(history.model.load_into(make_model(workload)), x, y),
        memory=memory,
        versions={"unknot": version("unknot")},
        settings={key: value for key, value in fed.engine.describe().items() if key in ("path", "threads")},
        outside_training=1 - spent["train"] / spent["total"],
    )


if __name__ == "__main__":
    main()
