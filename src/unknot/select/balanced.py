"""Everybody once before anybody twice, in an order in which every round looks like the whole.

Of our own making. Two things make a round of few clients noisy where their data differ: who happens to be
drawn often, and who happens to be drawn together. The first goes when clients are dealt out without
replacement; the second when each is chosen so that the first updates of those asked so far add up to what
they would if all had been asked alike (herding: M. Welling, Herding Dynamical Weights to Learn, ICML 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.selection import Ids
from unknot.core.weights import Weights

_BLOCK = 1 << 20


@dataclass
class Balanced:
    """Asks those who were asked least, and among them whoever best makes up for the others.

    A client is described by how its first update differs from the mean of all, times its samples. That
    adds up to nothing over everybody, so each sweep through the clients ends where it began. The first of
    a sweep is drawn. A newcomer is asked as soon as it can be, and taken for an average client.
    """

    lineage: Lineage = field(default=NOBODY, init=False)
    curious: bool = field(default=True, init=False)
    _place: dict[int, int] = field(default_factory=dict, init=False)
    _pairs: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), init=False)
    """The scalar product of each two descriptions."""
    _sum: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), init=False)
    """That of each description with the sum over all who were asked."""
    _asked: dict[int, int] = field(default_factory=dict, init=False)

    learns = False

    def fresh(self) -> Balanced:
        return Balanced()

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        self.curious = False
        if not updates:
            return
        ordered = sorted(updates, key=lambda update: update.client)
        for update in ordered:
            self.lineage |= update.lineage
        self._place = {update.client: i for i, update in enumerate(ordered)}
        self._asked = dict.fromkeys(self._place, 0)
        samples = np.asarray([update.samples for update in ordered], dtype=np.float64)
        centre = np.diag(samples) @ (np.eye(len(ordered)) - samples / samples.sum())
        self._pairs = centre @ _products(ordered) @ centre.T
        self._sum = np.zeros(len(ordered))

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        left = idle[key.order(idle)].tolist()
        return np.sort([self._next(left) for _ in range(min(k, len(left)))]).astype(np.int64)

    def observe(self, model: Weights, updates: Sequence[Update], accuracy: float, key: Key) -> None:
        """The descriptions stay as they were met."""

    def _next(self, left: list[int]) -> int:
        """Take the next client out of those left, who come in a drawn order."""
        fewest = min(self._asked.values(), default=0)
        times = {client: self._asked.get(client, fewest - 1) for client in left}
        least = min(times.values())
        open_ = [client for client in left if times[client] == least]
        begins = all(count == least for count in self._asked.values())
        client = open_[0] if begins else min(open_, key=self._imbalance)
        left.remove(client)
        self._asked[client] = least + 1
        if client in self._place:
            self._sum += self._pairs[:, self._place[client]]
        return client

    def _imbalance(self, client: int) -> float:
        """How much farther from nothing the sum is with this client: |s + d|² - |s|²."""
        if client not in self._place:
            return 0.0
        place = self._place[client]
        return float(2 * self._sum[place] + self._pairs[place, place])


def _products(updates: Sequence[Update]) -> NDArray[np.float64]:
    """The scalar product of each two clients' steps, over a block of coordinates at a time."""
    steps = [(update.weights - update.job.start).vector.cpu() for update in updates]
    total = torch.zeros(len(steps), len(steps), dtype=torch.float64)
    for start in range(0, len(steps[0]), _BLOCK):
        part = torch.stack([step[start : start + _BLOCK] for step in steps]).double()
        total += part @ part.T
    return total.numpy()
