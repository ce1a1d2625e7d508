"""Clients whose data is worthless: noise, random labels, nothing at all.

Their samples are added as new rows, so nobody else's data changes, and a run without those clients
is the run that it would have been.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key

CORRUPTIONS = ("noise", "labels", "zero")


def corrupt(
    data: FederatedData, clients: Iterable[int | str], corruption: str = "noise", *, key: Key | int = 0
) -> FederatedData:
    """The same federation, with the training data of these clients corrupted.

    "noise": inputs are normal draws with no signal, labels stay; "labels": inputs stay, targets are
    drawn anew (see `Samples.random_targets`); "zero": inputs are all zero, labels stay. `key` is a key or a
    seed; a client's draws are its own.
    """
    if corruption not in CORRUPTIONS:
        raise ConfigError(f"there is no corruption {corruption!r}.{nearest(str(corruption), CORRUPTIONS)}")
    base = (key if isinstance(key, Key) else Key.root(key)).child("corrupt", corruption)
    shards = {client: data[client] for client in data.clients}
    train = data.train
    parts, count = [train], len(train)
    for client in sorted({data.number(client) for client in clients}):
        shard = data[client]
        parts.append(_corrupted(train.subset(shard.rows), corruption, base.child(client)))
        shards[client] = Shard(np.arange(count, count + len(shard), dtype=np.int64), shard.ids)
        count += len(shard)
    return data.replaced(train=train.extended(*parts[1:]), shards=shards)


def _corrupted(samples: Samples, corruption: str, key: Key) -> Samples:
    x = samples.x
    if corruption == "zero":
        return replace(samples, x=torch.zeros_like(x))
    if corruption == "labels":
        return replace(samples, y=samples.random_targets(samples.y, key.generator()))
    if not x.is_floating_point():
        raise ConfigError("corruption 'noise' is for inputs that are numbers; use 'labels' for text")
    return replace(samples, x=torch.from_numpy(key.generator().standard_normal(x.shape)).to(x.dtype))
