"""Nodes, lanes and flights: which models there are, who trains them, and what is on its way.

A *node* is a model and its members. A *lane* is a part of the federation with a pace of its own:
its nodes move in step, its clients fly for it, and no other lane notices. Plain FedAvg is one lane
with one node; clusters are one lane each; an influence tree is one lane with many nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.jobs import Job
from unknot.core.lineage import Ledger
from unknot.core.recipe import Recipe
from unknot.core.selection import Selector
from unknot.core.weights import Weights
from unknot.federation.clock import SECOND
from unknot.federation.history import Trip
from unknot.federation.pace import Pace


class Node:
    """A model and the clients that may shape it. Refuses weights that carry a forbidden unit."""

    def __init__(self, name: str, members: Iterable[int], weights: Weights, ledger: Ledger) -> None:
        self.name = name
        self.members = set(members)
        self._ledger = ledger
        self.weights = weights

    @property
    def weights(self) -> Weights:
        return self._weights

    @weights.setter
    def weights(self, weights: Weights) -> None:
        self._ledger.check(weights, f"keep the model of node {self.name!r}")
        self._weights = weights


@dataclass(frozen=True, eq=False)
class Flight:
    """A client at work: when it was sent out, from which version, when it is back, with what."""

    client: int
    jobs: tuple[Job, ...]
    version: int
    launched: int
    due: int


@dataclass(eq=False)
class Lane:
    """A part of the federation that goes at a pace of its own."""

    name: str
    members: set[int]
    recipe: Recipe
    pace: Pace
    selector: Selector
    meeting: bool = False
    """Whether those in flight are only making their selector's acquaintance."""
    nodes: dict[str, Node] = field(default_factory=dict)
    version: int = 0
    """Aggregations since the lane's (last) start: what draws are keyed by."""
    rounds: int = 0
    """Aggregations in all, those before a restart too: what a run's length counts."""
    flights: list[Flight] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Clients that have been sent a model since the start: they shaped the lane's course."""
    joined: dict[int, int] = field(default_factory=dict)
    """After how many rounds a newcomer came; nobody is in here who was there from the start."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What a method remembers of the lane's structure, such as its tree: never numbers made of data."""

    def present(self, version: int) -> NDArray[np.int64]:
        """The members that had come by this version: what counts when a lane goes back and trains on.

        Newcomers wait until it has caught up; they do not if nobody else is there.
        """
        there = sorted(client for client in self.members if self.joined.get(client, 0) <= version)
        return np.asarray(there or sorted(self.members), dtype=np.int64)

    @property
    def flying(self) -> set[int]:
        return {flight.client for flight in self.flights}

    @property
    def model(self) -> Weights:
        """The lane's own model: that of the node called "global", or of its only one."""
        return (self.nodes.get("global") or next(iter(self.nodes.values()))).weights

    @property
    def ready(self) -> int:
        """When the lane has what it waits for: at a meeting, everybody."""
        if self.meeting:
            return max(flight.due for flight in self.flights)
        return self.pace.ready(self.flights, self.version)

    def trip(self, flight: Flight, ended: int) -> Trip:
        return Trip(flight.client, self.name, flight.launched / SECOND, ended / SECOND)
