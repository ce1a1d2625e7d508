"""Clusters: groups of clients that train apart, each a lane of its own, in which another method rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Job, Update
from unknot.core.weights import Weights
from unknot.federation.lanes import Lane
from unknot.federation.method import Method

if TYPE_CHECKING:
    from unknot.federation.loop import Federation


class Clustered(Method):
    """A lane a cluster; no lane notices the others. Subclasses say who is where, and how one forgets.

    `inner` lays out, trains and repairs each lane as if it were a federation of its own. The pace is
    the federation's: each cluster has an equal share of those who are asked at a time.
    """

    @property
    def inner(self) -> Method:
        return _PLAIN

    @abstractmethod
    def deal(self, fed: Federation) -> list[list[int]]:
        """The members of each cluster at the start."""

    def open(self, fed: Federation) -> None:
        dealt = self.deal(fed)
        for i, members in enumerate(dealt):
            lane = fed.add_lane(f"cluster {i}", members)
            lane.pace = fed.pace.share(len(dealt))
            self.inner.lay_out(fed, lane)

    def choose(self, fed: Federation, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        return self.inner.choose(fed, lane, idle, room)

    def jobs(self, fed: Federation, lane: Lane, client: int) -> list[Job]:
        return self.inner.jobs(fed, lane, client)

    def absorb(self, fed: Federation, lane: Lane, updates: Sequence[Update]) -> None:
        self.inner.absorb(fed, lane, updates)

    def admit(self, fed: Federation, clients: Sequence[int]) -> None:
        """A newcomer goes where the fewest are."""
        for client in clients:
            lane = min(fed.lanes.values(), key=lambda lane: len(lane.members))
            lane.joined[client] = lane.rounds
            self.inner.welcome(fed, lane, [client])


_PLAIN = Method()


def mean_of_clusters(fed: Federation) -> Model:
    """One last aggregation across clusters, weighted by data."""
    return fed.mean(_models(fed), "aggregate clusters")


def ensemble_of_clusters(fed: Federation) -> Model:
    """The clusters answer together."""
    models = fed.shares(_models(fed))
    return Ensemble(tuple(models)) if models else fed.initial


def best_cluster(fed: Federation) -> Model:
    """The model of the cluster that does best on the validation data; the first, where two do as well."""
    models = [weights for _, weights in fed.shares(_models(fed))]
    samples = fed.data.validation
    if not models or samples is None:
        return fed.initial
    return max(models, key=lambda weights: fed.engine.evaluate(weights, samples).accuracy)


def _models(fed: Federation) -> list[tuple[set[int], Weights]]:
    """The clusters' members and models; one that has just begun again has nothing to say yet."""
    return [(lane.members, lane.nodes["global"].weights) for lane in fed.lanes.values()]
