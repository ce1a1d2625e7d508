"""What the jobs of a stack read, put in order on the GPU: the same draws as `Key.order`, for all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster

_LOWEST = -(2**63)


def reads(roster: Roster) -> tuple[Tensor, Tensor]:
    """As `roster.reads` and `roster.counts`."""
    if any(lesson.drawn is not None for lesson in roster.lessons):
        return roster.reads, roster.counts
    found, counts = _through(roster.lessons, roster.steps, roster.setting.device)
    if more := len(roster.rows) - len(roster.lessons):
        found = torch.cat([found, found[:, :1].expand(-1, more, -1)], 1)
        counts = torch.cat([counts, counts[:, :1].expand(-1, more)], 1)
    return found, counts


def _through(lessons: Sequence[Lesson], steps: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Jobs that go through all that their clients hold, in an order of each epoch."""
    batch = lessons[0].job.recipe.batch_size
    held = np.array([len(lesson.shard) for lesson in lessons])
    taken = np.array([lesson.steps for lesson in lessons])
    per_epoch = -(-held // batch)
    epochs = int((-(-taken // per_epoch)).max())
    keys = np.array(
        [[lesson.job.key.child("epoch", e).bits for e in range(epochs)] for lesson in lessons],
        dtype=np.uint64,
    ).view(np.int64)

    def there(numbers: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        return torch.from_numpy(numbers).to(device)

    rows = there(np.concatenate([lesson.shard.rows for lesson in lessons]))
    ids = there(np.concatenate([lesson.shard.ids for lesson in lessons]))
    size = there(held).unsqueeze(1)
    place = torch.arange(int(held.max()), device=device)
    where = there(np.cumsum(held) - held).unsqueeze(1) + torch.minimum(place, size - 1)
    draws = _words(there(keys).unsqueeze(2), ids[where].unsqueeze(1))
    # Compared as numbers without a sign; what is no sample comes last.
    draws = (draws ^ _LOWEST).masked_fill_((place >= size).unsqueeze(1), 2**63 - 1)
    order = draws.argsort(dim=2, stable=True)
    rows = rows[where].unsqueeze(1).expand(-1, epochs, -1).gather(2, order)  # [jobs, epochs, samples]

    parts, last = there(per_epoch).unsqueeze(1), there(taken - 1).unsqueeze(1)
    step = torch.minimum(torch.arange(steps, device=device), last)  # [jobs, steps]
    first = step % parts * batch
    place = first.unsqueeze(2) + torch.arange(batch, device=device)
    place = torch.where(place < size.unsqueeze(2), place, first.unsqueeze(2))  # filled up with its first
    flat = (step // parts * rows.shape[2]).unsqueeze(2) + place
    found = rows.flatten(1).gather(1, flat.flatten(1)).view(len(lessons), steps, batch)
    return found.transpose(0, 1), torch.minimum(size - first, torch.full_like(first, batch)).t()


def _words(keys: Tensor, ids: Tensor) -> Tensor:
    """`Key.words` in whole numbers with a sign: products wrap alike, shifts must not draw the sign in."""
    z = ids * _signed(0x9E3779B97F4A7C15) + keys
    for _ in range(2):
        z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
        z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
        z = z ^ _shifted(z, 31)
    return z


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _shifted(z: Tensor, by: int) -> Tensor:
    shifted: Tensor = (z >> by) & (2 ** (64 - by) - 1)
    return shifted
