"""K-Center: clients in groups by their first updates, and one drawn from each.

As *Incentive and Dynamic Client Selection for Federated Unlearning* has it, after H. Wang, Z. Kaplan, D. Niu,
B. Li: Optimizing Federated Learning on Non-IID Data with Reinforcement Learning (INFOCOM 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.fields import convert
from unknot.core.jobs import Update
from unknot.core.keys import Key
from unknot.core.lineage import NOBODY, Lineage
from unknot.core.selection import Ids
from unknot.core.weights import Weights
from unknot.select.groups import centres


@dataclass
class KCenter:
    """Every round takes its clients from the groups in turn, each drawn at random within its group.

    With as many groups as clients a round that is one of each, as in the paper. A client that has not
    been met (a newcomer) is a group of its own.
    """

    groups: int = 10
    """How many groups of clients that are alike."""
    lineage: Lineage = field(default=NOBODY, init=False)
    curious: bool = field(default=True, init=False)
    _group: dict[int, int] = field(default_factory=dict, init=False)

    learns = False

    def __post_init__(self) -> None:
        self.groups = convert(self.groups, int, "KCenter: groups")
        if self.groups < 1:
            raise ConfigError(f"KCenter: groups must be at least 1, not {self.groups}")

    def fresh(self) -> KCenter:
        return KCenter(self.groups)

    def meet(self, model: Weights, updates: Sequence[Update], key: Key) -> None:
        self.curious = False
        for update in updates:
            self.lineage |= update.lineage
        steps = {u.client: u.step.vector.cpu().numpy() for u in updates}
        self._group = centres(steps, min(self.groups, len(steps)), key) if steps else {}

    def choose(self, idle: Ids, k: int, key: Key) -> Ids:
        if k >= len(idle):
            return np.sort(idle)
        newcomer = self.groups
        queues: dict[int, list[int]] = {}
        for place in key.order(idle):
            client = int(idle[place])
            queues.setdefault(self._group.get(client, newcomer + client), []).append(client)
        # Which groups come first, where there are more of them than seats, is drawn as well.
        turns = sorted(queues, key=lambda group: int(key.child("groups").words([group])[0]))
        chosen: list[int] = []
        while len(chosen) < k:
            chosen += [queues[group].pop(0) for group in turns if queues[group]]
        return np.sort(np.asarray(chosen[:k], dtype=np.int64))

    def observe(self, model: Weights, updates: Sequence[Update], merit: float, key: Key) -> None:
        """The groups stay as they were met."""
