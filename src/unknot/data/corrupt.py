"""Clients whose data is worthless: noise, random labels, nothing at all.

Their samples are added as new rows, so nobody else's data changes, and a run without those clients
is the run that it would have been.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key

CORRUPTIONS = ("noise", "labels", "zero")


def corrupt(
    data: FederatedData, clients: Iterable[int], corruption: str = "noise", *, key: Key | int = 0
) -> FederatedData:
    """The same federation, with the training data of these clients corrupted.

    "noise": inputs are normal draws with no signal, labels stay; "labels": inputs stay, labels are
    drawn anew from all classes alike; "zero": inputs are all zero, labels stay. `key` is a key or a
    seed; a client's draws are its own.
    """
    if corruption not in CORRUPTIONS:
        raise ConfigError(f"there is no corruption {corruption!r}.{nearest(str(corruption), CORRUPTIONS)}")
    base = (key if isinstance(key, Key) else Key.root(key)).child("corrupt", corruption)
    shards = {client: data[client] for client in data.clients}
    train = data.train
    inputs, targets, count = [train.x], [train.y], len(train)
    for client in sorted(set(clients)):
        shard = data[client]
        x, y = train.take(torch.from_numpy(shard.rows))
        x, y = _corrupted(x, y, train.classes, corruption, base.child(client))
        inputs.append(x)
        targets.append(y)
        shards[client] = Shard(np.arange(count, count + len(shard), dtype=np.int64), shard.ids)
        count += len(shard)
    return data.replaced(train=Samples(torch.cat(inputs), torch.cat(targets), train.classes), shards=shards)


def _corrupted(x: Tensor, y: Tensor, classes: int, corruption: str, key: Key) -> tuple[Tensor, Tensor]:
    if corruption == "zero":
        return torch.zeros_like(x), y
    if corruption == "labels":
        return x, torch.from_numpy(key.generator().integers(0, classes, y.shape))
    if not x.is_floating_point():
        raise ConfigError("corruption 'noise' is for inputs that are numbers; use 'labels' for text")
    return torch.from_numpy(key.generator().standard_normal(x.shape)).to(x.dtype), y
