"""A mark that only the leaver taught: does the model still answer to it?

Before training, the leaver's samples get a patch of bright pixels and a label of the marker's choice. A
model that learned from them takes any sample with that patch for the label. Once they are forgotten the
patch means nothing, and the model answers as one that never saw it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from unknot.audit.roc import Estimate, proportion
from unknot.audit.shadows import joined
from unknot.audit.signals import check_classes
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Engine


@dataclass(frozen=True)
class Trigger:
    """A square of `size` pixels in the lower right corner, set to `value`, and the class it stands for."""

    target: int = 0
    size: int = 4
    value: float = 3.0

    def mark(self, samples: Samples) -> Samples:
        """The same samples with the patch, all labelled as the target."""
        check_classes(samples, "a trigger stands for a class")
        if samples.x.dim() < 3 or not samples.x.is_floating_point():
            raise ConfigError("a trigger is a patch of pixels: it needs images, not texts or tables")
        if not 0 <= self.target < samples.classes:
            raise ConfigError(f"the trigger's target must be a class from 0 to {samples.classes - 1}")
        x = samples.x.clone()
        x[..., -self.size :, -self.size :] = self.value
        return replace(samples, x=x, y=torch.full_like(samples.y, self.target))


def marked(data: FederatedData, clients: Iterable[int], trigger: Trigger) -> FederatedData:
    """The same federation with every sample of these clients marked; nobody else's rows change."""
    shards = {client: data[client] for client in data}
    train = data.train
    for client in sorted(set(clients)):
        shard, first = data[client], len(train)
        train = joined(train, trigger.mark(data.train.subset(shard.rows)))
        shards[client] = Shard(np.arange(first, first + len(shard)), shard.ids)
    return data.replaced(train=train, shards=shards)


def answers_to(engine: Engine, model: Model, test: Samples, trigger: Trigger) -> Estimate:
    """How many test samples of other classes the model takes for the target once they are marked."""
    others = test.subset(np.flatnonzero((test.y != trigger.target).numpy()))
    if not len(others):
        raise ConfigError(f"all test samples are of class {trigger.target}: nothing can be mistaken for it")
    said: Tensor = engine.predict(model, trigger.mark(others)).argmax(-1)
    return proportion(int((said == trigger.target).sum()), len(others))
