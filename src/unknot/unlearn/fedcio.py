"""FedCIO: clusters, isolation, one-shot aggregation.

H. Qiu, Y. Wang, Y. Xu, L. Cui, Z. Shen: FedCIO: Efficient Exact Federated Unlearning with
Clustering, Isolation, and One-Shot Aggregation. IEEE BigData 2023. Clients are clustered, each
cluster trains a model of its own, and the models are aggregated once, when one is wanted. A request
retrains the cluster that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.fields import EACH
from unknot.core.requests import Erase
from unknot.federation import Desk, Guarantee, Lane
from unknot.federation.clustered import Clustered, count_clusters, ensemble_of_clusters, mean_of_clusters
from unknot.topology import random_clusters

USUAL = 3
"""Clusters, where nobody says how many."""
SERVED = {"mean": mean_of_clusters, "ensemble": ensemble_of_clusters}


@dataclass(frozen=True)
class FedCIO(Clustered):
    """Isolated clusters, aggregated once; a request retrains its own cluster from scratch.

    Clusters made of what clients hold would themselves have to be forgotten: these are not.
    """

    clusters: int | None = None
    """How many clusters; left out: 3, or one for each client where they are fewer."""
    assignment: Annotated[tuple[tuple[int, ...], ...], EACH] | None = None
    """Who is in which, a list of client numbers each; left out: dealt at random, as evenly as can be."""
    served: str = "mean"
    """The data-weighted "mean" of the clusters' models, or their "ensemble"."""

    name = "fedcio"
    guarantee = Guarantee.EXACT

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise ConfigError(f"FedCIO: clusters must be at least 1, not {self.clusters}")
        if self.served not in SERVED:
            raise ConfigError(f"FedCIO: served is {' or '.join(map(repr, SERVED))}, not {self.served!r}")

    def deal(self, desk: Desk) -> list[list[int]]:
        if self.assignment is None:
            clusters = count_clusters(desk, self.clusters, USUAL)
            count = min(clusters, len(desk.members))
            drawn = random_clusters(desk.members, count, desk.key) if count else []
            return [list(members) for members in drawn] + [[] for _ in range(clusters - count)]
        dealt = [sorted(set(members) - desk.forgotten) for members in self.assignment]
        if sorted(client for members in dealt for client in members) != sorted(desk.members):
            raise ConfigError("method.assignment must name every client in exactly one cluster")
        return dealt

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            desk.restart(lane)

    def serve(self, desk: Desk) -> Model:
        return SERVED[self.served](desk)
