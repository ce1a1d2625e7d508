"""What travels between a federation and its workers: few large arrays, and rows that nobody else can read.

What is in the object store stays there after it was freed, until something else is written over it, and a
store that is full writes to a disk. So samples go through it enciphered, by a key that goes with the call,
is used once and is kept nowhere: a row is readable in the federation and in the workers, and there it can be
overwritten.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import Recipe
from unknot.core.weights import Layout, Weights

PIECE = 32 << 20
"""So many bytes of samples travel at a time: the object store need not hold them all."""
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


# Samples ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """What samples are, without one of them."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    types: tuple[torch.dtype, torch.dtype]
    classes: int
    kind: str

    @staticmethod
    def of(samples: Samples) -> Head:
        x, y = samples.x, samples.y
        return Head(tuple(x.shape), tuple(y.shape), (x.dtype, y.dtype), samples.classes, samples.kind)

    def empty(self, rows: int | None = None) -> Samples:
        """Room for them, or for so many of them; not yet written."""
        x, y = (
            torch.empty((shape[0] if rows is None else rows, *shape[1:]), dtype=dtype)
            for shape, dtype in zip((self.x, self.y), self.types, strict=True)
        )
        return Samples(x, y, self.classes, self.kind)


@dataclass(frozen=True)
class Piece:
    """Some bytes of the inputs (or the targets), and where they begin; the key opens them."""

    axis: str
    first: int
    key: bytes


def pieces(samples: Samples) -> Iterator[tuple[Piece, Bytes]]:
    """The samples piece by piece, each enciphered by a key of its own."""
    for axis in ("x", "y"):
        values: Tensor = getattr(samples, axis).detach()
        row = values[:1].numel() * values.element_size()
        step = max(1, PIECE // max(row, 1))
        for start in range(0, len(values) if row else 0, step):
            part = values[start : start + step].cpu().contiguous()
            key = secrets.token_bytes(32)
            opened = as_bytes(part)
            yield Piece(axis, start * row, key), opened ^ _pad(key, len(opened))


def put_in(samples: Samples, piece: Piece, closed: Bytes) -> None:
    """Decipher a piece into its place: there is no other copy of it that could be read."""
    room = as_bytes(getattr(samples, piece.axis))[piece.first : piece.first + len(closed)]
    np.bitwise_xor(closed, _pad(piece.key, len(closed)), out=room)


def as_bytes(values: Tensor) -> Bytes:
    """A view of a contiguous tensor."""
    seen: Bytes = values.reshape(-1).view(torch.uint8).numpy()
    return seen


def _pad(key: bytes, length: int) -> Bytes:
    """As many bytes as nobody without the key can tell from chance (SHAKE-128 of it)."""
    return np.frombuffer(hashlib.shake_128(key).digest(length), dtype=np.uint8)


# Jobs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _Sent(Job):
    """A job that has come with what it may read."""

    own: Shard

    def shard(self, data: FederatedData) -> Shard:
        return self.own


@dataclass(frozen=True)
class Parcel:
    """Some jobs without their weights, lineage and data: numbers in a few arrays, a row a job.

    `starts` points into the vectors that go along, `recipes` into those that the worker knows.
    """

    starts: list[int]
    recipes: list[int]
    units: list[tuple[int, int]]
    keys: list[int]
    versions: list[int]
    rows: tuple[Ints, ...]
    ids: tuple[Ints, ...] | None
    """Left out where every client's are 0, 1, 2..."""
    batches: tuple[tuple[Ints, ...] | None, ...]

    @staticmethod
    def of(
        jobs: Sequence[Job], shards: Sequence[Shard], starts: Sequence[int], recipes: Sequence[int]
    ) -> Parcel:
        counted = all(not len(shard) or shard.ids[-1] == len(shard) - 1 for shard in shards)
        drawn = [None if job.batches is None else _packed(job.batches) for job in jobs]
        return Parcel(
            list(starts),
            list(recipes),
            [(job.unit.client, job.unit.revision) for job in jobs],
            [job.key.bits for job in jobs],
            [job.version for job in jobs],
            _packed([shard.rows for shard in shards]),
            None if counted else _packed([shard.ids for shard in shards]),
            tuple(drawn),
        )

    def jobs(self, layout: Layout, vectors: Sequence[Tensor], recipes: dict[int, Recipe]) -> list[Job]:
        """The jobs again, ready to be trained; nobody's lineage is known here."""
        weights = [Weights(vector, layout) for vector in vectors]
        rows = _unpacked(self.rows)
        ids = [np.arange(len(own)) for own in rows] if self.ids is None else _unpacked(self.ids)
        made: list[Job] = []
        for i, drawn in enumerate(self.batches):
            made.append(
                _Sent(
                    unit=Unit(*self.units[i]),
                    start=weights[self.starts[i]],
                    key=Key(self.keys[i]),
                    recipe=recipes[self.recipes[i]],
                    version=self.versions[i],
                    batches=None if drawn is None else tuple(_unpacked(drawn)),
                    own=Shard(rows[i], ids[i]),
                )
            )
        return made


def _packed(arrays: Sequence[Ints]) -> tuple[Ints, ...]:
    """Many small arrays as two."""
    lengths = np.asarray([len(array) for array in arrays], dtype=np.int64)
    joined = np.concatenate(arrays) if len(arrays) else np.empty(0, dtype=np.int64)
    return joined.astype(np.int64, copy=False), lengths


def _unpacked(packed: tuple[Ints, ...]) -> list[Ints]:
    joined, lengths = packed
    return np.split(joined, np.cumsum(lengths)[:-1]) if len(lengths) else []


# Vectors ------------------------------------------------------------------------------------------


def matrix(vectors: Sequence[Tensor]) -> NDArray[Any]:
    """Vectors as the rows of one array on the CPU."""
    found: NDArray[Any] = torch.stack([vector.detach().cpu() for vector in vectors]).numpy()
    return found


def vectors(matrix: NDArray[Any] | None) -> list[Tensor]:
    """Its rows as tensors of their own: what the object store lends may not be written to, nor be kept."""
    return [] if matrix is None else [torch.from_numpy(row.copy()) for row in matrix]


# How a round is cut -------------------------------------------------------------------------------


def calls(steps: Sequence[int], groups: Sequence[object], workers: int, rows: int) -> list[list[int]]:
    """Which jobs go out together: large parcels first and smaller ones later, so that all end together.

    Jobs of one group with as many steps lie together, `rows` of them are a stack that no parcel cuts in
    two, and there is a stack for every worker where there are jobs enough.
    """
    together: dict[object, list[int]] = {}
    for place, group in enumerate(groups):
        together.setdefault(group, []).append(place)
    stacks: list[list[int]] = []
    for places in together.values():
        places.sort(key=lambda place: -steps[place])
        share = max(1, min(rows, -(-len(places) // workers)))
        many = -(-len(places) // share)
        ends = [len(places) * (i + 1) // many for i in range(many)]
        stacks += [places[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    stacks.sort(key=lambda stack: -max(steps[place] for place in stack))
    found: list[list[int]] = []
    while stacks:
        taken = -(-len(stacks) // (2 * workers))
        # Of stacks that are alike in steps each parcel has some of the long and of the short ones.
        found.append([place for stack in stacks[:taken] for place in stack])
        stacks = stacks[taken:]
    return found
