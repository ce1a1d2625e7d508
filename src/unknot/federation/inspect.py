"""What a client sends back is looked at before it is used."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unknot.core.errors import UnknotError
from unknot.core.jobs import Job, Update


def fault(job: Job, update: Update) -> str | None:
    """Why this update cannot be used, or None. Such an update is set aside and counted."""
    start, weights = job.start, update.weights
    if weights.layout != start.layout or weights.vector.shape != start.vector.shape:
        return "wrong shape"
    if weights.vector.dtype != start.vector.dtype:
        return "wrong type"
    if not isinstance(update.samples, int) or isinstance(update.samples, bool) or update.samples < 1:
        return "impossible sample count"
    # A sum is finite only if every term is; one pass and one number read back.
    if not torch.isfinite(weights.vector.sum()) and not torch.isfinite(weights.vector).all():
        return "not finite"
    return None


def sort_out(jobs: Sequence[Job], updates: Sequence[Update]) -> tuple[list[Update], list[tuple[Job, str]]]:
    """The updates that can be used, in the order of client ids, and those that cannot, with why."""
    if len(jobs) != len(updates):
        raise UnknotError(f"the engine was given {len(jobs)} jobs and returned {len(updates)} updates")
    good: list[Update] = []
    bad: list[tuple[Job, str]] = []
    for job, update in zip(jobs, updates, strict=True):
        reason = fault(job, update)
        if reason is not None:
            bad.append((job, reason))
        elif (update.lineage & job.lineage) != job.lineage:
            # Not the client's fault: lineage is the server's own bookkeeping, and must not shrink.
            raise UnknotError(f"the engine lost part of the lineage of client {job.client}'s update")
        else:
            good.append(update)
    good.sort(key=lambda update: update.client)
    return good, bad
