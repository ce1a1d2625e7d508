"""What a client sends back is looked at before it is used."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unknot.core.errors import UnknotError
from unknot.core.jobs import Job, Update
from unknot.core.weights import blocks

NOT_FINITE = "not finite"


def fault(job: Job, update: Update) -> str | None:
    """Why this update cannot be used, or None. Such an update is set aside and counted."""
    return misfit(job, update) or (None if finite([update.weights.vector])[0] else NOT_FINITE)


def misfit(job: Job, update: Update) -> str | None:
    """Why it cannot be used whatever its numbers are, or None."""
    start, weights = job.start, update.weights
    if weights.layout is not start.layout and weights.layout != start.layout:
        return "wrong shape"
    if weights.vector.shape != start.vector.shape:
        return "wrong shape"
    if weights.vector.dtype != start.vector.dtype:
        return "wrong type"
    if not isinstance(update.samples, int) or isinstance(update.samples, bool) or update.samples < 1:
        return "impossible sample count"
    return None


def finite(vectors: Sequence[Tensor]) -> list[bool]:
    """Which vectors are numbers throughout. A GPU is asked once for all: to ask is to wait."""
    if vectors and all(vector.is_cuda for vector in vectors):
        found = [torch.stack(list(some)).isfinite().all(1) for some in blocks(vectors, len(vectors[0]))]
        return [bool(fine) for fine in torch.cat(found).tolist()]
    # A sum is finite only if every term is; one pass and one number read back.
    return [bool(torch.isfinite(v.sum()) or torch.isfinite(v).all()) for v in vectors]


def sort_out(jobs: Sequence[Job], updates: Sequence[Update]) -> tuple[list[Update], list[tuple[Job, str]]]:
    """The updates that can be used, in the order of client ids, and those that cannot, with why."""
    if len(jobs) != len(updates):
        raise UnknotError(f"the engine was given {len(jobs)} jobs and returned {len(updates)} updates")
    good: list[Update] = []
    bad: list[tuple[Job, str]] = []
    faults = [misfit(job, update) for job, update in zip(jobs, updates, strict=True)]
    whole = [update for update, reason in zip(updates, faults, strict=True) if reason is None]
    fine = iter(finite([update.weights.vector for update in whole]))
    for job, update, reason in zip(jobs, updates, faults, strict=True):
        if reason is None and not next(fine):
            reason = NOT_FINITE
        if reason is not None:
            bad.append((job, reason))
        elif not update.lineage >= job.lineage:
            # Not the client's fault: lineage is the server's own bookkeeping, and must not shrink.
            raise UnknotError(f"the engine lost part of the lineage of client {job.client}'s update")
        else:
            good.append(update)
    good.sort(key=lambda update: update.client)
    return good, bad
