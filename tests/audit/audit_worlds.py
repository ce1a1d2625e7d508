"""Small federations that know their digits by heart, and models that an audit must not pass."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import torch

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.weights import Weights
from unknot.experiments import Experiment
from unknot.experiments.counterparts import Counterpart, erasures_of, parted, train
from unknot.experiments.simulate import assemble, data_of

FILE = """
name = "by heart"
[data]
partition = "iid"
clients = 3
samples = 100
validation = 50
[train]
lr = 0.05
epochs = 2
batch_size = 10
[federation]
rounds = 12
[[request]]
erase = 1
round = 2
"""


def experiment(*overrides: str, **changes: object) -> Experiment:
    return replace(Experiment.of(tomllib.loads(FILE), overrides), **changes)  # type: ignore[arg-type]


def kept_model(asked: Experiment, seed: int = 77) -> Weights:
    """What a server has that never served the request."""
    fed = assemble(asked, data_of(asked))
    _, erased = parted(fed.data, erasures_of(asked, fed.data))
    (model,) = train(asked, fed.data, fed.engine, [Counterpart(seed, erased)])
    return model


def with_random_labels(asked: Experiment, model: Weights, rounds: int = 5) -> Weights:
    """The model, trained further on the erased samples with random labels: as some unlearn."""
    data = data_of(asked)
    _, erased = parted(data, erasures_of(asked, data))
    rows = np.concatenate(list(erased.values()))
    wrong = np.random.default_rng(0).integers(0, data.train.classes, len(rows))
    samples = Samples(data.train.x[torch.from_numpy(rows)], torch.from_numpy(wrong), data.train.classes)
    only = FederatedData(samples, {0: Shard.of(np.arange(len(rows)))}, data.test)
    start = Weights(model.vector, model.layout)
    fed = unknot.simulate(asked.model.name, only, recipe=asked.setup.recipe, initial=start, evaluate_every=0)
    return fed.run(rounds).model
