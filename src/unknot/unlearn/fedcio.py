"""FedCIO: clusters, isolation, one-shot aggregation.

H. Qiu, Y. Wang, Y. Xu, L. Cui, Z. Shen: FedCIO: Efficient Exact Federated Unlearning with
Clustering, Isolation, and One-Shot Aggregation. IEEE BigData 2023. Clients are clustered, each
cluster trains a model of its own, and the models are aggregated once, when one is wanted. A request
retrains the cluster that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.requests import Erase
from unknot.core.weights import weighted_sum
from unknot.federation import Federation, Guarantee, Lane, Method

SERVED = ("mean", "ensemble")


@dataclass(frozen=True)
class FedCIO(Method):
    """Isolated clusters, aggregated once; a request retrains its own cluster from scratch.

    Clients are dealt to `clusters` at random, as evenly as can be, or as `assignment` says: clusters
    made of what clients hold would themselves have to be forgotten. `served`: the data-weighted
    "mean" of the clusters' models, or their "ensemble".
    """

    clusters: int = 3
    assignment: tuple[tuple[int, ...], ...] | None = None
    served: str = "mean"

    name = "fedcio"
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise ConfigError(f"FedCIO needs at least 1 cluster, not {self.clusters}")
        if self.served not in SERVED:
            raise ConfigError(f"FedCIO serves {' or '.join(map(repr, SERVED))}, not {self.served!r}")

    def open(self, fed: Federation) -> None:
        for i, members in enumerate(self._deal(fed)):
            fed.add_node(fed.add_lane(f"cluster {i}", members), f"cluster {i}", members)

    def forget(self, fed: Federation, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            fed.restart(lane)

    def admit(self, fed: Federation, clients: Sequence[int]) -> None:
        """A newcomer goes where the fewest are."""
        for client in clients:
            lane = min(fed.lanes.values(), key=lambda lane: len(lane.members))
            lane.members.add(client)
            lane.nodes[lane.name].members.add(client)

    def serve(self, fed: Federation) -> Model:
        """One-shot aggregation; a cluster that has just begun again has nothing to say yet."""
        models = [(_held(fed, lane), lane.nodes[lane.name].weights) for lane in fed.lanes.values()]
        trained = [(n, weights) for n, weights in models if n and weights.lineage]
        total = sum(n for n, _ in trained)
        if not trained:
            return fed.initial
        if self.served == "ensemble":
            return Ensemble(tuple((n / total, weights) for n, weights in trained))
        return weighted_sum(
            [(n / total, weights) for n, weights in trained], fed.ledger, "aggregate clusters"
        )

    def _deal(self, fed: Federation) -> list[list[int]]:
        ids = np.asarray(sorted(fed.members), dtype=np.int64)
        if self.assignment is None:
            order = ids[fed.key.child("clusters").order(ids)]
            return [sorted(map(int, order[i :: self.clusters])) for i in range(self.clusters)]
        dealt = [client for members in self.assignment for client in members]
        if sorted(dealt) != ids.tolist():
            raise ConfigError("method.assignment must name every client in exactly one cluster")
        return [sorted(members) for members in self.assignment]


def _held(fed: Federation, lane: Lane) -> int:
    return sum(len(fed.data[client]) for client in lane.members)
