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
    the federation's: each cluster has an equal share of those who are asked at a time. Where clusters
    are joined at the end, plain federated learning rules in the lane that all of them share.
    """

    @property
    def inner(self) -> Method:
        return _PLAIN

    @property
    def keeps(self) -> bool:
        return self.inner.keeps

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
        return self._ruler(lane).choose(fed, lane, idle, room)

    def jobs(self, fed: Federation, lane: Lane, client: int) -> list[Job]:
        return self._ruler(lane).jobs(fed, lane, client)

    def absorb(self, fed: Federation, lane: Lane, updates: Sequence[Update]) -> None:
        self._ruler(lane).absorb(fed, lane, updates)

    def admit(self, fed: Federation, clients: Sequence[int]) -> None:
        """A newcomer goes where the fewest are."""
        for client in clients:
            lane = min(fed.lanes.values(), key=lambda lane: len(lane.members))
            lane.joined[client] = lane.rounds
            self.inner.welcome(fed, lane, [client])

    def _ruler(self, lane: Lane) -> Method:
        return _PLAIN if lane.name == JOINT else self.inner


_PLAIN = Method()
JOINT = "joint"
"""The lane of the rounds that all clusters take part in."""


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
    if not models:
        return fed.initial
    return max(models, key=lambda weights: fed.scores.of(weights, "validation").accuracy)


def join_clusters(fed: Federation, rounds: int) -> None:
    """A few rounds of all clients from the mean of the clusters; what comes of it is kept apart from them.

    It carries everybody's lineage, so that any request drops it.
    """
    fed.archive.drop(JOINT)
    lane = fed.add_lane(JOINT, fed.members)
    node = fed.add_node(lane, JOINT, lane.members, fed.mean(_models(fed), "join clusters"))
    fed.train_alone(lane, rounds)
    del fed.lanes[JOINT]
    fed.archive[_joined(fed)] = node.weights


def joint_model(fed: Federation) -> Model:
    """The clusters' mean after the joint rounds; the mean itself, as long as there were none."""
    if JOINT in fed.lanes:
        return fed.lanes[JOINT].nodes[JOINT].weights
    name = _joined(fed)
    return fed.archive[name] if name in fed.archive else mean_of_clusters(fed)


def _joined(fed: Federation) -> tuple[object, ...]:
    """The name of what was joined from the clusters as they are now: not found once they have gone on."""
    return (JOINT, *(lane.version for lane in fed.lanes.values()))


def _models(fed: Federation) -> list[tuple[set[int], Weights]]:
    """The clusters' members and models; one that has just begun again has nothing to say yet."""
    lanes = [lane for lane in fed.lanes.values() if lane.name != JOINT]
    return [(lane.members, lane.nodes["global"].weights) for lane in lanes]
