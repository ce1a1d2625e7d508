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
from numpy.typing import NDArray

from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.selection import Ids
from unknot.core.weights import Weights
from unknot.select.products import products

Floats = NDArray[np.float64]


@dataclass
class Balanced:
    """Asks those who were asked least, and among them whoever best makes up for the others.

    A client is described by how its first update differs from the mean of all, times its samples. That
    adds up to nothing over everybody, so each sweep through the clients ends where it began. The first of
    a sweep is drawn. A newcomer is asked as soon as it can be, and taken for an average client.
    """

    lineage: Lineage = field(default=NOBODY, init=False)
    curious: bool = field(default=True, init=False)
    _row: dict[int, int] = field(default_factory=dict, init=False)
    _pairs: Floats = field(default_factory=lambda: np.zeros((0, 0)), init=False)
    """The scalar product of each two descriptions."""
    _sum: Floats = field(default_factory=lambda: np.zeros(0), init=False)
    """That of each description with the sum over all who were asked."""
    _asked: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False)

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
        samples = np.asarray([update.samples for update in ordered], dtype=np.float64)
        share, found = samples / samples.sum(), products(ordered)
        mean = found @ share
        self._pairs = np.outer(samples, samples) * (found - mean[:, None] - mean + share @ mean)
        self._row = {update.client: row for row, update in enumerate(ordered)}
        self._sum, self._asked = np.zeros(len(ordered)), np.zeros(len(ordered), dtype=np.int64)

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        drawn = idle[key.order(idle)]
        self._welcome(drawn)
        rows = np.asarray([self._row[client] for client in drawn.tolist()], dtype=np.int64)
        chosen: list[int] = []
        for _ in range(min(k, len(rows))):
            place = self._next(rows)
            chosen.append(int(drawn[place]))
            drawn, rows = np.delete(drawn, place), np.delete(rows, place)
        return np.sort(np.asarray(chosen, dtype=np.int64))

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """The descriptions stay as they were met."""

    def _next(self, rows: Ids) -> int:
        """Which of those who are left is asked next; they come in a drawn order."""
        asked = self._asked[rows]
        least = asked.min()
        places = np.flatnonzero(asked == least)
        place = int(places[0])
        if (self._asked != least).any():  # not the first of a sweep: |s + d|² - |s|² is to be small
            mine = rows[places]
            place = int(places[np.argmin(2 * self._sum[mine] + self._pairs[mine, mine])])
        self._asked[rows[place]] += 1
        self._sum += self._pairs[rows[place]]
        return place

    def _welcome(self, clients: Ids) -> None:
        """Rows for those who were not met: nothing is known of them, and they come first."""
        new = [client for client in clients.tolist() if client not in self._row]
        if not new:
            return
        known = [self._asked[self._row[client]] for client in clients.tolist() if client in self._row]
        self._row |= {client: len(self._row) + i for i, client in enumerate(new)}
        self._pairs = np.pad(self._pairs, (0, len(new)))
        self._sum = np.pad(self._sum, (0, len(new)))
        before = np.full(len(new), min(known, default=1) - 1)
        self._asked = np.concatenate([self._asked, before])
