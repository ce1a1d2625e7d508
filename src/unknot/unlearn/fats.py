"""FATS: few clients and few samples are drawn, and whoever was not drawn is already forgotten.

Y. Tao, C. Wang, M. Pan, D. Yu, X. Cheng, D. Wang: Communication Efficient and Provable Federated
Unlearning. VLDB 2024. Over T iterations in rounds of E local steps, K = ρ_C·E·M/T of M clients are
drawn a round, with replacement, and b = ρ_S·N/(ρ_C·E) of N samples a step. A request goes back to
the first draw that holds the erased client or sample, makes it anew, and trains on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.requests import Erase
from unknot.core.weights import weighted_sum
from unknot.federation import Desk, Guarantee, Lane, Method, Synchronous


@dataclass(frozen=True)
class FATS(Method):
    """Train on draws of clients and samples; go back to the first draw that holds what is erased.

    The two ρ bound how often a client and a sample are drawn, on average. The models of all rounds are kept.
    """

    rho_client: float = 10.0
    """How often a client is drawn on average, in all `rounds`; above 0."""
    rho_sample: float = 10.0
    """How often a sample is drawn on average, in all `rounds`; above 0."""
    rounds: int = 100
    """The rounds that these averages are over."""
    local_steps: int = 10
    """Steps of a drawn client a round."""
    clients: int = 0
    """The M of the formulas, declared: what is erased must not set the pace. 0: the first members' number."""
    samples: int = 0
    """The N of the formulas, a client's samples, declared as well; 0: the batch size of [train] is b."""
    memory: float = 4096.0
    """MiB for the models of all rounds; beyond that, training stops with an error."""

    name = "fats"
    selects = False
    aggregates = False
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        for option in ("rho_client", "rho_sample"):
            if not (share := getattr(self, option)) > 0:
                raise ConfigError(f"FATS: {option} must be positive, not {share}")
        for option, least in {"rounds": 1, "local_steps": 1, "clients": 0, "samples": 0}.items():
            if (found := getattr(self, option)) < least:
                raise ConfigError(f"FATS: {option} must be at least {least}, not {found}")

    def per_round(self, clients: int) -> int:
        """K, at least 1."""
        return max(1, round(self.rho_client * clients / self.rounds))

    def per_step(self) -> int:
        """b, at least 1."""
        return max(1, round(self.rho_sample * self.samples / (self.rho_client * self.local_steps)))

    def open(self, desk: Desk) -> None:
        if not isinstance(desk.pace, Synchronous):
            raise ConfigError("FATS goes back to a round: it needs the synchronous pace")
        desk.limit_history(self.memory)
        lane = desk.add_lane("global", desk.members)
        lane.recipe = replace(desk.recipe, batch_size=self.per_step()) if self.samples else desk.recipe
        lane.notes.update(slots=self.per_round(self.clients or len(desk.members)), drawn={}, units={})
        desk.add_node(lane, "global", desk.members)

    def choose(self, desk: Desk, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        """K draws with replacement: in each, the client with the smallest word.

        Taking a client out changes the draws that it won, and no others.
        """
        present = lane.present(lane.version)
        key = desk.key.child("draw", lane.version)
        words = [key.child(slot).words(present) for slot in range(lane.notes["slots"])]
        drawn = tuple(int(present[word.argmin()]) for word in words)
        lane.notes["drawn"][lane.version] = drawn
        lane.notes["units"][lane.version] = []
        return sorted(set(drawn))

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        """One for each time that the client was drawn, on fresh samples in every step."""
        node, version, ids = lane.nodes["global"], lane.version, desk.ids(client)
        jobs = []
        for slot, drawn in enumerate(lane.notes["drawn"][version]):
            if drawn != client or not len(ids):
                continue
            key = desk.key.child("train", node.name, version, slot, client)
            steps = range(self.local_steps)
            batches = tuple(key.child("batch", s).smallest(ids, lane.recipe.batch_size) for s in steps)
            unit = desk.ledger.draw(client, np.concatenate(batches).tolist())
            lane.notes["units"][version].append(unit)
            jobs.append(Job(unit, node.weights, key, lane.recipe, node.name, version, batches))
        return jobs

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        node = lane.nodes["global"]
        if updates:
            terms = [(1 / len(updates), update.weights) for update in updates]
            node.weights = weighted_sum(terms, desk.ledger, "aggregate an update")
        desk.archive[lane.version + 1] = node.weights

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        gone = {target.client for target in request.targets if target.samples is None}
        for lane in touched:
            drawn, units = lane.notes["drawn"], lane.notes["units"]
            forbidden = desk.ledger.forbidden
            spoilt = [v for v in drawn if gone & set(drawn[v]) or any(u in forbidden for u in units[v])]
            if not spoilt:
                continue
            first = min(spoilt)
            start = desk.archive[first] if first else desk.initial
            desk.rewind(lane, first, {"global": start})
            for version in [v for v in drawn if v >= first]:
                del drawn[version], units[version]
                if version + 1 in desk.archive:
                    del desk.archive[version + 1]

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        super().admit(desk, clients)
        lane = desk.lanes["global"]
        lane.joined.update(dict.fromkeys(clients, lane.rounds))
