"""Clients work in shifts."""

from dataclasses import dataclass, field

import numpy as np

from unknot.core.lineage import NOBODY


@dataclass
class Shifts:
    """Whose shift it is comes first: client k has shift k mod `shifts`. It knows nobody's data."""

    shifts: int = 2
    _turn: int = field(default=0, init=False)

    lineage = NOBODY
    curious = False
    learns = False

    def fresh(self):
        return Shifts(self.shifts)

    def meet(self, model, updates, key):
        """There is nothing to know."""

    def choose(self, idle, k, key):
        drawn = idle[key.order(idle)]
        on_duty = drawn % self.shifts == self._turn % self.shifts
        self._turn += 1
        return np.sort(np.concatenate([drawn[on_duty], drawn[~on_duty]])[:k])

    def observe(self, model, updates, accuracy, key):
        """There is nothing to learn."""
