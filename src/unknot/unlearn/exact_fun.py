"""Exact-Fun: a quantised model hides small changes, and a change that is hidden needs no retraining.

Z. Xiong, W. Li, Y. Li, Z. Cai: Exact-Fun: An Exact and Efficient Federated Unlearning Approach.
ICDM 2023. Clients are sent q(w) = α·round(w/α) and take one gradient step. On a request the
server goes through the rounds again with what it kept: each round's aggregate is computed without
the erased data, and while it is the same after quantisation, the clients' answers stay true. From
the first round that differs, they are asked anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.lineage import Unit
from unknot.core.requests import Erase
from unknot.core.weights import Weights, weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method, Synchronous


@dataclass(frozen=True)
class ExactFun(Method):
    """Quantised models, one gradient step a round; go back to the first round that shows the erased data.

    Every answer of every client is kept.
    """

    alpha: float = 0.01
    """The step of the quantisation, above 0: the coarser, the fewer requests show."""
    memory: float = 4096.0
    """MiB for what clients answered; beyond that, training stops with an error."""

    name = "exact-fun"
    selects = False
    aggregates = False
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise ConfigError(f"Exact-Fun: alpha must be positive, not {self.alpha}")

    @property
    def promise(self) -> str:
        """Each round's model is exact; how far back a request goes shows how much the data mattered."""
        return "exact, but for how many rounds it goes back, which depends on the erased data"

    def open(self, desk: Desk) -> None:
        if not isinstance(desk.pace, Synchronous):
            raise ConfigError("Exact-Fun goes through rounds again: it needs the synchronous pace")
        desk.limit_history(self.memory)
        lane = desk.add_lane("global", desk.members)
        desk.add_node(lane, "global", desk.members, self._quantised(desk.initial))
        desk.add_node(lane, "exact", [])  # w, of which clients see q(w) alone

    def choose(self, desk: Desk, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        return self._chosen(desk, lane, lane.version)

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        batch = self._batch(desk, lane.version, client)
        unit = desk.ledger.draw(client, batch.tolist())
        sent = lane.nodes["global"].weights
        return [self._job(desk, lane, sent, lane.version, unit, batch)] if len(batch) else []

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        for update in updates:
            desk.remember(update)
        exact, sent = lane.nodes["exact"], lane.nodes["global"]
        exact.weights, sent.weights = self._step(desk, exact.weights, sent.weights, updates)

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            exact, sent = desk.initial, self._quantised(desk.initial)
            version = 0
            while version < lane.version:
                updates = self._answers(desk, lane, sent, version)
                if updates is None:
                    break
                exact, sent = self._step(desk, exact, sent, updates)
                version += 1
            desk.rewind(lane, version, {"exact": exact, "global": sent})

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        super().admit(desk, clients)
        lane = desk.lanes["global"]
        lane.nodes["exact"].members.clear()
        lane.joined.update(dict.fromkeys(clients, lane.rounds))

    def _answers(self, desk: Desk, lane: Lane, sent: Weights, version: int) -> list[Update] | None:
        """What the remaining clients answered to these bits in this round; None if one must be asked."""
        updates = []
        for client in self._chosen(desk, lane, version):
            if not desk.size(client):
                continue
            unit, batch = desk.ledger.unit(client), self._batch(desk, version, client)
            known = desk.remembered(self._job(desk, lane, sent, version, unit, batch))
            if known is None:
                return None
            updates.append(known)
        return updates

    def _step(
        self, desk: Desk, exact: Weights, sent: Weights, updates: Sequence[Update]
    ) -> tuple[Weights, Weights]:
        """w ← w + Σ (nₖ/n)(answerₖ − q(w))."""
        total = sum(update.samples for update in updates)
        if not total:
            return exact, sent
        terms = [(update.samples / total, update.weights) for update in updates]
        moved = weighted_sum([(1.0, exact), (-1.0, sent), *terms], desk.ledger, "aggregate an update")
        return moved, self._quantised(moved)

    def _quantised(self, weights: Weights) -> Weights:
        # + 0: a weight that rounds to nothing is the same nothing from either side, in its bits too.
        return weights.like(torch.round(weights.vector / self.alpha) * self.alpha + 0.0)

    @staticmethod
    def _chosen(desk: Desk, lane: Lane, version: int) -> list[int]:
        present = lane.present(version)
        room = desk.pace.vacancies(0, len(present))
        return [int(c) for c in desk.key.child("select", lane.name, version).smallest(present, room)]

    @staticmethod
    def _batch(desk: Desk, version: int, client: int) -> NDArray[np.int64]:
        key = desk.key.child("batch", version, client)
        return key.smallest(desk.ids(client), desk.recipe.batch_size)

    @staticmethod
    def _job(
        desk: Desk, lane: Lane, sent: Weights, version: int, unit: Unit, batch: NDArray[np.int64]
    ) -> Job:
        key = desk.key.child("train", "global", version, unit.client)
        return Job(unit, sent, key, lane.recipe, "global", version, (batch,))
