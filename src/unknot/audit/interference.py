"""Exact means non-interference: a check that any method can be put through.

Two runs that differ only in the erased data, and are alike in everything else, must serve the same
weights, bit for bit, once the request has been served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Ensemble, Model
from unknot.core.keys import Key
from unknot.core.requests import Target


@dataclass(frozen=True)
class Interference:
    """For each variant of the erased data: is what is served the same, and if not, how far off?"""

    gaps: dict[str, float]
    """The largest difference in any weight; 0 only if all bits agree."""

    @property
    def none(self) -> bool:
        return all(gap == 0.0 for gap in self.gaps.values())


def variants(data: FederatedData, targets: Sequence[Target], seed: int = 0) -> dict[str, FederatedData]:
    """The same federation with other samples, with random labels, and without samples to erase.

    The last is left out where single samples are erased: a client cannot ask for the erasure of
    samples that it does not hold.
    """
    out = {
        "other samples": data.replaced(**_altered(data, targets, seed, inputs=True)),
        "random labels": data.replaced(**_altered(data, targets, seed, inputs=False)),
    }
    if all(target.samples is None for target in targets):
        empty = {target.client: Shard.of([]) for target in targets}
        out["no samples"] = data.replaced(shards={**_shards(data), **empty})
    return out


def interference(
    run: Callable[[FederatedData], Model], data: FederatedData, targets: Sequence[Target], seed: int = 0
) -> Interference:
    """Serve the same request on every variant of the erased data and compare with the original.

    `run` trains a federation on the data that it is given, has `targets` erased, and returns what
    is served at the end. It must do the same each time it is called.
    """
    base = run(data)
    return Interference(
        {name: gap(base, run(variant)) for name, variant in variants(data, targets, seed).items()}
    )


def gap(a: Model, b: Model) -> float:
    """The largest difference between two models; 0 only if all bits agree."""
    if isinstance(a, Ensemble) or isinstance(b, Ensemble):
        return _gap_between_ensembles(a, b)
    if a.equal(b):
        return 0.0
    if a.layout != b.layout:
        return float("inf")
    difference = float((a.vector.double() - b.vector.double()).abs().max())
    # Different bits with no difference (0 and -0, NaN) are still not the same.
    return difference if difference > 0 else float("nan")


def _gap_between_ensembles(a: Model, b: Model) -> float:
    if not isinstance(a, Ensemble) or not isinstance(b, Ensemble) or len(a.parts) != len(b.parts):
        return float("inf")
    if a.vote != b.vote or [factor for factor, _ in a.parts] != [factor for factor, _ in b.parts]:
        return float("inf")
    gaps = [gap(v, w) for (_, v), (_, w) in zip(a.parts, b.parts, strict=True)]
    return next((g for g in gaps if g != g), max(gaps))


def _shards(data: FederatedData) -> dict[int, Shard]:
    return {client: data[client] for client in data}


def _altered(
    data: FederatedData, targets: Sequence[Target], seed: int, inputs: bool
) -> dict[str, Samples | dict[int, Shard]]:
    """Changed copies of the targets' samples, appended: nobody else's rows move or change."""
    shards = _shards(data)
    x, y = [data.train.x], [data.train.y]
    length = len(data.train)
    key = Key.root(seed).child("interference")
    for target in targets:
        shard = shards[target.client]
        mine = np.ones(len(shard), dtype=bool)
        if target.samples is not None:
            mine = np.isin(shard.ids, np.asarray(target.samples))
        old = torch.from_numpy(shard.rows[mine])
        generator = key.child(target.client, "x" if inputs else "y").generator()
        new_x, new_y = data.train.x[old], data.train.y[old]
        if inputs and new_x.is_floating_point():
            new_x = torch.from_numpy(generator.standard_normal(new_x.shape)).to(new_x.dtype)
        elif inputs:
            low, high = int(data.train.x.min()), int(data.train.x.max())
            new_x = torch.from_numpy(generator.integers(low, high + 1, new_x.shape)).to(new_x.dtype)
        else:
            new_y = torch.from_numpy(generator.integers(0, data.train.classes, new_y.shape)).to(new_y.dtype)
        rows = shard.rows.copy()
        rows[mine] = length + np.arange(int(mine.sum()))
        shards[target.client] = Shard(rows, shard.ids)
        x.append(new_x)
        y.append(new_y)
        length += len(old)
    return {"train": Samples(torch.cat(x), torch.cat(y), data.train.classes), "shards": shards}
