"""Exact means non-interference: a check that any method can be put through.

Two runs that differ only in the erased data, and are alike in everything else, must serve the same
weights, bit for bit, once the request has been served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

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

    Validation and test rows that belong to a client to be erased are changed, or missing, as well.
    The last variant is left out where single samples are erased: a client cannot ask for the erasure
    of samples that it does not hold.
    """
    out = {
        "other samples": data.replaced(**_altered(data, targets, seed, inputs=True)),
        "random labels": data.replaced(**_altered(data, targets, seed, inputs=False)),
    }
    if all(target.samples is None for target in targets):
        bare = data.fork()
        for target in targets:
            bare.drop_held_out(target.client)
        empty = {target.client: Shard.of([]) for target in targets}
        out["no samples"] = bare.replaced(shards={**_shards(data), **empty})
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


def _altered(data: FederatedData, targets: Sequence[Target], seed: int, inputs: bool) -> dict[str, object]:
    """Changed copies of the targets' samples, appended: nobody else's rows move or change.

    Held-out rows of clients that are erased whole are changed where they are.
    """
    shards = _shards(data)
    parts = [data.train]
    length = len(data.train)
    key = Key.root(seed).child("interference")
    for target in targets:
        shard = shards[target.client]
        mine = np.ones(len(shard), dtype=bool)
        if target.samples is not None:
            mine = np.isin(shard.ids, np.asarray(target.samples))
        old = shard.rows[mine]
        parts.append(_drawn(data.train, old, key.child(target.client, "x" if inputs else "y"), inputs))
        rows = shard.rows.copy()
        rows[mine] = length + np.arange(len(old))
        shards[target.client] = Shard(rows, shard.ids)
        length += len(old)
    whole = [target.client for target in targets if target.samples is None]
    held = key.child("held out", "x" if inputs else "y")
    return {
        "train": parts[0].extended(*parts[1:]),
        "shards": shards,
        "test": _changed(data.test, data.test_owner, whole, held.child("test"), inputs),
        "validation": _changed(
            data.validation, data.validation_owner, whole, held.child("validation"), inputs
        ),
    }


def _drawn(samples: Samples, rows: NDArray[np.int64], key: Key, inputs: bool) -> Samples:
    """These rows with other inputs of the same kind, or with random targets."""
    old, generator = samples.subset(rows), key.generator()
    if not inputs:
        return replace(old, y=samples.random_targets(old.y, generator))
    if old.x.is_floating_point():
        drawn = torch.from_numpy(generator.standard_normal(old.x.shape))
    else:
        low, high = int(samples.x.min()), int(samples.x.max())
        drawn = torch.from_numpy(generator.integers(low, high + 1, old.x.shape))
    return replace(old, x=drawn.to(old.x.dtype))


def _changed(
    samples: Samples | None, owner: NDArray[np.int64] | None, clients: Sequence[int], key: Key, inputs: bool
) -> Samples | None:
    """Held-out samples with these clients' rows drawn anew, each where it was."""
    if samples is None or owner is None or not np.isin(owner, clients).any():
        return samples
    x, y = samples.x.clone(), samples.y.clone()
    for client in clients:
        rows = np.flatnonzero(owner == client)
        new = _drawn(samples, rows, key.child(client), inputs)
        x[rows], y[rows] = new.x, new.y
    return replace(samples, x=x, y=y)
