"""What the jobs of a stack read, put in order on the GPU: the same draws as `Key.order`, for all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unknot.core.keys import Key
from unknot.core.samples import Shard
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster

_LOWEST = -(2**63)
MOST_HELD = 2**25  # rows that are remembered, 16 bytes each


class Holdings:
    """Which rows of the samples shards hold, and their ids, on the GPU: sent there once, not every round."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[Shard, int]] = {}  # by the shard's id(), with the shard: it is ours
        self._rows = self._ids = torch.empty(0, dtype=torch.int64)

    def of(self, shards: Sequence[Shard], device: torch.device) -> tuple[list[int], Tensor, Tensor]:
        """Where each shard begins in the two that follow: the rows of all shards, and their ids."""
        known = self._places
        new = {id(shard): shard for shard in shards if id(shard) not in known}
        if len(self._rows) + sum(map(len, new.values())) > MOST_HELD:  # such as are made anew every round
            known.clear()
            self._rows = self._ids = self._rows[:0]
            new = {id(shard): shard for shard in shards}
        if new:
            place = len(self._rows)
            for which, shard in new.items():
                known[which] = shard, place
                place += len(shard)
            more = [
                torch.from_numpy(np.concatenate(parts)).to(device)
                for parts in zip(*((shard.rows, shard.ids) for shard in new.values()), strict=True)
            ]
            self._rows = torch.cat([self._rows.to(device), more[0]])
            self._ids = torch.cat([self._ids.to(device), more[1]])
        return [known[id(shard)][1] for shard in shards], self._rows, self._ids


def reads(roster: Roster, held: Holdings) -> tuple[Tensor, Tensor]:
    """As `roster.reads` and `roster.counts`."""
    if any(lesson.drawn is not None for lesson in roster.lessons):
        return roster.reads, roster.counts
    found, counts = _through(roster.lessons, roster.steps, held, roster.setting.device)
    if more := len(roster.rows) - len(roster.lessons):
        found = torch.cat([found, found[:, :1].expand(-1, more, -1)], 1)
        counts = torch.cat([counts, counts[:, :1].expand(-1, more)], 1)
    return found, counts


def _through(
    lessons: Sequence[Lesson], steps: int, held: Holdings, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Jobs that go through all that their clients hold, in an order of each epoch."""
    batch = lessons[0].job.recipe.batch_size
    shards = [lesson.shard for lesson in lessons]
    sizes = np.array([len(shard.rows) for shard in shards])
    taken = np.array([lesson.steps for lesson in lessons])
    per_epoch = -(-sizes // batch)
    epochs = int((-(-taken // per_epoch)).max())
    keys = [lesson.job.key for lesson in lessons]
    bits = np.array([Key.below(keys, "epoch", epoch) for epoch in range(epochs)], dtype=np.uint64)
    places, rows, ids = held.of(shards, device)
    # All that is known of the jobs goes there at once: every copy waits for the GPU.
    told = np.stack([sizes, per_epoch, taken - 1, np.array(places), *bits.view(np.int64)], axis=1)
    there = torch.from_numpy(told).to(device).unsqueeze(2)
    size, parts, last, begin = there[:, :4].unbind(1)
    place = torch.arange(int(sizes.max()), device=device)
    where = begin + torch.minimum(place, size - 1)
    draws = _words(there[:, 4:], ids[where].unsqueeze(1))
    # Compared as numbers without a sign; what is no sample comes last.
    draws = (draws ^ _LOWEST).masked_fill_((place >= size).unsqueeze(1), 2**63 - 1)
    order = draws.argsort(dim=2, stable=True)
    rows = rows[where].unsqueeze(1).expand(-1, epochs, -1).gather(2, order)  # [jobs, epochs, samples]

    step = torch.minimum(torch.arange(steps, device=device), last)  # [jobs, steps]
    first = step % parts * batch
    place = first.unsqueeze(2) + torch.arange(batch, device=device)
    place = torch.where(place < size.unsqueeze(2), place, first.unsqueeze(2))  # filled up with its first
    flat = (step // parts * rows.shape[2]).unsqueeze(2) + place
    found = rows.flatten(1).gather(1, flat.flatten(1)).view(len(lessons), steps, batch)
    return found.transpose(0, 1), torch.minimum(size - first, torch.full_like(first, batch)).t()


def sign_keys(roster: Roster) -> Tensor:
    """The keys of Hutchinson's signs, ``[steps, rows]``."""
    keys = [lesson.job.key for lesson in roster.rows]
    bits = np.array([Key.below(keys, "hutchinson", step) for step in range(roster.steps)], dtype=np.uint64)
    return torch.from_numpy(bits.view(np.int64)).to(roster.setting.device)


class Signs:
    """`Key.signs` of so many numbers for many keys at once; nothing in it waits for a number."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self._ids = torch.arange((size + 63) // 64, device=device)
        self._bits = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=device)

    def of(self, keys: Tensor, dtype: torch.dtype) -> Tensor:
        """±1 for keys ``[rows]``: ``[rows, size]``."""
        # The bytes of a word from its lowest, the bits of a byte from its highest.
        octets = _words(keys.unsqueeze(1), self._ids).view(torch.uint8).unsqueeze(2)
        found = (octets & self._bits).ne(0).flatten(1)[:, : self.size]
        return found.to(dtype).mul_(2).sub_(1)


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
