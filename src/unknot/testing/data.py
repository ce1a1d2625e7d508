"""Is data sound, is it the same each time, and does erasing leave nothing of it?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from unknot.core.data import FederatedData, Samples
from unknot.core.errors import ErasedDataError
from unknot.data.dataset import Dataset
from unknot.data.partition import Iid, federate
from unknot.data.registry import load
from unknot.testing.report import Checks, Report

Data = Dataset | FederatedData


def check_data(data: str | Data | Callable[[], Data], clients: int = 3) -> Report:
    """Look at a data set by its name, at a function that makes one, or at what a federation holds.

    Nobody holds what nobody can learn from, it is the same each time, and the erasure of some clients, and
    of a sample, puts their rows out of reach and overwrites them, for everybody but their owner.
    """
    checks = Checks(f"data {data if isinstance(data, str) else getattr(data, 'name', 'given')}")
    with checks.during("it can be loaded"):
        first = _loaded(data, clients)
        again = _loaded(data, clients)
    for part in ("train", "test", "validation"):
        one, other = getattr(first, part), getattr(again, part)
        checks.hold(f"the {part} samples are the same each time", _same(one, other), "they differ")
    checks.hold("somebody holds something", any(len(first[c]) for c in first), "no client has a sample")
    shared = _held_twice(first)
    checks.notes["rows that several clients hold"] = shared
    for client in [c for c in first if len(first[c])][:clients]:
        with checks.during(f"client {client} can be erased"):
            _erasing_leaves_nothing(checks, first, client)
            if len(first[client]) > 1:
                _erasing_a_sample(checks, first, client)
    return checks.report()


def _loaded(data: str | Data | Callable[[], Data], clients: int) -> FederatedData:
    found = load(data) if isinstance(data, str) else data if isinstance(data, Data) else data()
    return federate(found, Iid(max(2, clients))) if isinstance(found, Dataset) else found


def _same(one: Samples | None, other: Samples | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


def _held_twice(data: FederatedData) -> int:
    rows = np.concatenate([data[client].rows for client in data])
    return len(rows) - len(np.unique(rows))


def _erasing_leaves_nothing(checks: Checks, data: FederatedData, client: int) -> None:
    mine, kept = data[client].rows, data.train.x.clone()
    rest = data.fork()
    rest.erase(client)
    try:
        found = len(rest[client])
    except ErasedDataError:
        found = 0
    checks.hold(
        "an erased client's data is out of reach", not found, f"client {client} still has {found} samples"
    )
    _overwritten(checks, data, rest, mine, kept, client)
    owned = rest.validation_owner is not None and client in rest.validation_clients
    owned |= rest.test_owner is not None and bool((rest.test_owner == client).any())
    checks.hold("its held-out rows go with it", not owned, f"rows of client {client} are still held out")


def _erasing_a_sample(checks: Checks, data: FederatedData, client: int) -> None:
    shard, kept = data[client], data.train.x.clone()
    rest = data.fork()
    rest.erase(client, shard.ids[:1])
    gone = int(shard.ids[0]) not in rest[client].ids.tolist()
    checks.hold("an erased sample is out of reach", gone, f"client {client} still has sample {shard.ids[0]}")
    _overwritten(checks, data, rest, shard.rows[:1], kept, client)


def _overwritten(
    checks: Checks,
    data: FederatedData,
    rest: FederatedData,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    kept: torch.Tensor,
    client: int,
) -> None:
    others = [rest[other].rows for other in rest]
    held = np.concatenate(others) if others else np.empty(0, dtype=np.int64)
    alone = torch.from_numpy(np.setdiff1d(rows, held))
    checks.hold(
        "erased rows are overwritten",
        not rest.train.x[alone].any(),
        f"those of client {client} are still there",
    )
    same = torch.equal(rest.train.x[torch.from_numpy(held)], kept[torch.from_numpy(held)])
    checks.hold("nobody else's rows change", same, f"erasing client {client} changes rows that others hold")
    checks.hold("the giver's tensors are the giver's", torch.equal(data.train.x, kept), "they were changed")
