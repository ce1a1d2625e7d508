"""Clusters: groups of clients that train apart, each a lane of its own, in which another method rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.requests import Erase
from unknot.core.weights import Weights
from unknot.federation.desk import Desk
from unknot.federation.lanes import Lane
from unknot.federation.method import Method
from unknot.federation.pace import Pace


class Clustered(Method):
    """A lane a cluster; no lane notices the others. Subclasses say who is where, and how one forgets.

    `inner` lays out, trains and repairs each lane as if it were a federation of its own. The pace is
    the federation's: each cluster has a share of those who are asked at a time, an equal one unless a
    subclass says otherwise. Where clusters
    are joined at the end, plain federated learning rules in the lane that all of them share.
    """

    @property
    def inner(self) -> Method:
        return _PLAIN

    @property
    def keeps(self) -> bool:
        return self.inner.keeps

    @property
    def takes_leave(self) -> bool:
        return self.inner.takes_leave

    @abstractmethod
    def deal(self, desk: Desk) -> list[list[int]]:
        """The members of each cluster at the start."""

    def open(self, desk: Desk) -> None:
        dealt = self.deal(desk)
        for i, (members, pace) in enumerate(zip(dealt, self.paces(desk, dealt), strict=True)):
            lane = desk.add_lane(f"cluster {i}", members)
            lane.pace = pace
            self.inner.lay_out(desk, lane)

    def paces(self, desk: Desk, dealt: Sequence[Sequence[int]]) -> Sequence[Pace]:
        """The pace of each cluster: an equal share of those who are asked at a time."""
        return [desk.pace.share(len(dealt))] * len(dealt)

    def choose(self, desk: Desk, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        return self._ruler(lane).choose(desk, lane, idle, room)

    def send_out(self, desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        self._ruler(lane).send_out(desk, lane, clients)

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        return self._ruler(lane).jobs(desk, lane, client)

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        self._ruler(lane).absorb(desk, lane, updates)

    def farewell(self, desk: Desk, request: Erase) -> None:
        self.inner.farewell(desk, request)

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        """A newcomer goes where the fewest are."""
        for client in clients:
            lane = min(desk.lanes.values(), key=lambda lane: len(lane.members))
            lane.joined[client] = lane.rounds
            self.inner.welcome(desk, lane, [client])

    def _ruler(self, lane: Lane) -> Method:
        return _PLAIN if lane.name == JOINT else self.inner


_PLAIN = Method()
JOINT = "joint"
"""The lane of the rounds that all clusters take part in."""


def count_clusters(desk: Desk, asked: int | None, usual: int) -> int:
    """As many as were asked for; otherwise the usual number, or one for each client where they are fewer.

    More than there could ever be clients to be in them are refused.
    """
    clusters = min(usual, desk.population) if asked is None else asked
    if clusters > desk.population:
        raise ConfigError(
            f"method.clusters is {clusters}, but the federation's clients are {desk.population}: set it to "
            "that at most"
        )
    return clusters


def mean_of_clusters(desk: Desk) -> Model:
    """One last aggregation across clusters, weighted by data."""
    return desk.mean(_models(desk), "aggregate clusters")


def ensemble_of_clusters(desk: Desk) -> Model:
    """The clusters answer together."""
    models = desk.shares(_models(desk))
    return Ensemble(tuple(models)) if models else desk.initial


def best_cluster(desk: Desk) -> Model:
    """The model of the cluster that does best on the validation data; the first, where two do as well."""
    models = [weights for _, weights in desk.shares(_models(desk))]
    if not models:
        return desk.initial
    return desk.best(models).carrying(desk.validators)


def join_clusters(desk: Desk, rounds: int) -> None:
    """A few rounds of all clients from the mean of the clusters; what comes of it is kept apart from them.

    It carries everybody's lineage, so that any request drops it.
    """
    desk.archive.drop(JOINT)
    lane = desk.add_lane(JOINT, desk.members)
    node = desk.add_node(lane, JOINT, lane.members, desk.mean(_models(desk), "join clusters"))
    desk.train_alone(lane, rounds)
    desk.drop_lane(JOINT)
    desk.archive[_joined(desk)] = node.weights


def joint_model(desk: Desk) -> Model:
    """The clusters' mean after the joint rounds; the mean itself, as long as there were none."""
    if JOINT in desk.lanes:
        return desk.lanes[JOINT].nodes[JOINT].weights
    name = _joined(desk)
    return desk.archive[name] if name in desk.archive else mean_of_clusters(desk)


def _joined(desk: Desk) -> tuple[object, ...]:
    """The name of what was joined from the clusters as they are now: not found once they have gone on."""
    return (JOINT, *(lane.version for lane in desk.lanes.values()))


def _models(desk: Desk) -> list[tuple[set[int], Weights]]:
    """The clusters' members and models; one that has just begun again has nothing to say yet."""
    lanes = [lane for lane in desk.lanes.values() if lane.name != JOINT]
    return [(lane.members, lane.nodes["global"].weights) for lane in lanes]
