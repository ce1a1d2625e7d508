"""What training a job means, said once for every engine: the batches, their order, the signs.

Engines differ in how they compute this, never in what they compute.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import FederatedData, Shard
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.weights import Layout


def batches(job: Job, shard: Shard) -> Iterator[NDArray[np.int64]]:
    """The rows of the training samples that each step reads.

    Where the job names its batches, those. Otherwise epoch e goes through the shard in the order of
    the key's child ("epoch", e), cut into consecutive batches; the last one of an epoch may be smaller.
    """
    if job.batches is not None:
        yield from (shard.rows_of(batch) for batch in job.batches)
        return
    left = job.recipe.steps(len(shard))
    for epoch in range(job.recipe.epochs):
        order = job.key.child("epoch", epoch).order(shard.ids)
        for first in range(0, len(order), job.recipe.batch_size):
            if not left:
                return
            left -= 1
            yield shard.rows[order[first : first + job.recipe.batch_size]]


@dataclass(frozen=True, eq=False)
class Lesson:
    """A job's batches, all of `batch_size` rows: a smaller one is filled up with its first sample.

    `rows[s]` are read in step s, `counts[s]` of them for real; the others get a weight of exactly 0. What a
    recipe goes through is put in order when it is first asked for; `drawn` are a method's own batches.
    """

    job: Job
    shard: Shard
    steps: int
    drawn: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    @staticmethod
    def of(job: Job, shard: Shard) -> Lesson:
        if job.batches is None:
            return Lesson(job, shard, job.recipe.steps(len(shard)))
        drawn = _filled_up(job, shard, job.batches)
        return Lesson(job, shard, len(drawn[0]), drawn)

    @property
    def rows(self) -> NDArray[np.int64]:
        return self._read[0]

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._read[1]

    @property
    def readings(self) -> int:
        """How many samples are read, each reading counted."""
        if self.drawn is None:
            return self.job.recipe.samples_seen(len(self.shard))
        return int(self.drawn[1].sum())

    @cached_property
    def _read(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.drawn is not None:
            return self.drawn
        job, shard = self.job, self.shard
        size, samples = job.recipe.batch_size, len(shard)
        per_epoch = -(-samples // size)
        rows = np.empty((job.recipe.epochs if samples else 0, per_epoch * size), dtype=np.int64)
        for epoch in range(len(rows)):
            rows[epoch, :samples] = shard.rows[job.key.child("epoch", epoch).order(shard.ids)]
            rows[epoch, samples:] = rows[epoch, (per_epoch - 1) * size]
        counts = np.full((len(rows), per_epoch), size, dtype=np.int64)
        counts[:, -1:] = samples - (per_epoch - 1) * size
        return rows.reshape(-1, size)[: self.steps], counts.reshape(-1)[: self.steps]

    def mean_loss(self, losses: NDArray[np.float64]) -> float:
        """The mean over all sample readings of the losses ``[steps, batch_size]``."""
        real = np.arange(self.rows.shape[1]) < self.counts[:, None]
        return float(losses[real].sum() / self.counts.sum())


def _filled_up(
    job: Job, shard: Shard, batches: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and counts of the batches that a method drew."""
    size = job.recipe.batch_size
    counts = np.asarray([len(batch) for batch in batches], dtype=np.int64)
    if len(counts) and not 1 <= counts.min() <= counts.max() <= size:
        raise ConfigError(
            f"a batch drawn for client {job.client} has {counts.min()} to {counts.max()} samples; "
            f"the recipe's batch_size is {size}"
        )
    rows = np.empty((len(batches), size), dtype=np.int64)
    for step, batch in enumerate(batches):
        rows[step, : len(batch)] = shard.rows_of(batch)
        rows[step, len(batch) :] = rows[step, 0]
    return rows, counts


def untrained(job: Job, vector: Tensor) -> Update:
    """What a client without samples gives back: the weights it was sent, and no loss."""
    return job.done(vector, 0, math.nan)


def signs(job: Job, step: int, layout: Layout) -> Tensor:
    """Hutchinson's ±1 of one step, as one flat int8 vector in the order of the layout."""
    return job.key.child("hutchinson", step).signs(layout.size)


def hessian_products(
    gradients: Sequence[Tensor], parameters: Sequence[Tensor], signs: Sequence[Tensor]
) -> Sequence[Tensor]:
    """The Hessian times the vector of signs. A model that is linear in all its weights has none."""
    if not any(gradient.requires_grad for gradient in gradients):
        return [torch.zeros_like(p) for p in parameters]
    pairs = [(g, v) for g, v in zip(gradients, signs, strict=True) if g.requires_grad]
    return torch.autograd.grad(
        [g for g, _ in pairs], parameters, grad_outputs=[v for _, v in pairs], materialize_grads=True
    )


def shards_of(jobs: Sequence[Job], data: FederatedData) -> list[Shard]:
    """What each job may read; raises for a client whose data has been erased."""
    return [job.shard(data) for job in jobs]


def by_recipe(jobs: Sequence[Job]) -> list[list[int]]:
    """The places of the jobs that may be trained in one stack, together."""
    groups: dict[Hashable, list[int]] = {}
    known: dict[tuple[int, int], list[int]] = {}  # a recipe is looked at once, not for every job
    for place, job in enumerate(jobs):
        group = known.get((id(job.recipe), job.version))
        if group is None:
            group = groups.setdefault(job.recipe.together(job.version), [])
            known[id(job.recipe), job.version] = group
        group.append(place)
    return list(groups.values())
