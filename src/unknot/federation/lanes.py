"""Nodes, lanes and flights: which models there are, who trains them, and what is on its way.

A *node* is a model and its members. A *lane* is a part of the federation with a pace of its own:
its nodes move in step, its clients fly for it, and no other lane notices. Plain FedAvg is one lane
with one node; clusters are one lane each; an influence tree is one lane with many nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from unknot.core.jobs import Job, Update
from unknot.core.lineage import NOBODY, Ledger, Lineage
from unknot.core.selection import Selector
from unknot.core.training import Recipe
from unknot.core.weights import Weights
from unknot.federation.aggregators import Aggregate
from unknot.federation.clock import SECOND
from unknot.federation.events import Trip
from unknot.federation.notes import Notes
from unknot.federation.pace import Pace


class ClientSet(set[int]):
    """Clients, gone through in the order of their numbers.

    The order of a set depends on how it came about, which a run that is gone on with does not know.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(super().__iter__()))

    def pop(self) -> int:
        first = next(iter(self))
        self.remove(first)
        return first

    def __and__(self, other: AbstractSet[object]) -> ClientSet:
        return ClientSet(self.intersection(other))

    def __sub__(self, other: AbstractSet[object]) -> ClientSet:
        return ClientSet(self.difference(other))


class Changes:
    """The nodes whose weights were replaced while it was `noting`, with what they were before."""

    def __init__(self) -> None:
        self._old: dict[Node, Weights] | None = None

    @contextmanager
    def noting(self) -> Iterator[dict[Node, Weights]]:
        self._old = {}
        try:
            yield self._old
        finally:
            self._old = None

    def note(self, node: Node, old: Weights) -> None:
        if self._old is not None:
            self._old.setdefault(node, old)


class Node:
    """A model, the clients that may shape it, and how their updates are aggregated.

    It refuses weights that carry a forbidden unit.
    """

    __slots__ = ("_changes", "_ledger", "_weights", "aggregate", "members", "name")

    def __init__(
        self,
        name: str,
        members: Iterable[int],
        weights: Weights,
        aggregate: Aggregate,
        ledger: Ledger,
        changes: Changes,
    ) -> None:
        self.name = name
        self.members: set[int] = ClientSet(members)
        self._ledger = ledger
        self._changes = changes
        self._weights = weights
        self.begin(weights, aggregate)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, ClientSet(value) if name == "members" else value)  # type: ignore[call-overload]

    def begin(self, weights: Weights, aggregate: Aggregate) -> None:
        """Start from these weights, with an aggregator that has seen nothing."""
        self.weights = weights
        self.aggregate = aggregate

    @property
    def weights(self) -> Weights:
        self._ledger.read(self._weights)
        return self._weights

    @weights.setter
    def weights(self, weights: Weights) -> None:
        self._ledger.check(weights, f"keep the model of node {self.name!r}")
        self._changes.note(self, self._weights)
        self._weights = weights

    def hold(self, old: Weights, updates: Iterable[Update]) -> None:
        """See that the weights carry what they were before and all that went in."""
        self.weights = self._weights.carrying(old.lineage.union(*(update.lineage for update in updates)))


@dataclass(frozen=True, eq=False, slots=True)
class Flight:
    """A client at work: when it was sent out, from which version, when it is back, with what."""

    client: int
    jobs: tuple[Job, ...]
    version: int
    launched: int
    due: int


@dataclass(eq=False, slots=True)
class Lane:
    """A part of the federation that goes at a pace of its own.

    It has no attributes but these: what a method puts elsewhere would not be written with the run.
    """

    name: str
    members: set[int]
    recipe: Recipe
    pace: Pace
    selector: Selector
    at: int = 0
    """When something last happened here, in simulated nanoseconds: clients are sent out from then."""
    knows: Lineage = NOBODY
    """Whose data the selector has seen anything of."""
    meeting: bool = False
    """Whether those in flight are only making their selector's acquaintance."""
    nodes: dict[str, Node] = field(default_factory=dict)
    version: int = 0
    """Aggregations since the lane's (last) start: what draws are keyed by."""
    rounds: int = 0
    """Aggregations in all, those before a restart too: what a run's length counts."""
    ahead: int = 0
    """How many more rounds it has had than were asked for: a request at a time may lead it on."""
    flights: list[Flight] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Clients that have been sent a model since the start: they shaped the lane's course."""
    joined: dict[int, int] = field(default_factory=dict)
    """After how many rounds a newcomer came; nobody is in here who was there from the start."""
    notes: Notes = field(init=False)
    """What a method remembers of the lane's structure, such as its tree: never numbers made of data."""

    def __post_init__(self) -> None:
        self.notes = Notes(self.name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("members", "sent"):
            value = ClientSet(value)  # type: ignore[call-overload]
        elif name == "notes" and not isinstance(value, Notes):
            value = Notes(self.name, value)  # type: ignore[arg-type]
        object.__setattr__(self, name, value)

    def appoint(self, selector: Selector, knows: Lineage) -> None:
        """Let another selector choose from now on."""
        self.selector, self.knows = selector, knows

    def wait_until(self, at: int) -> None:
        """Stand still until then: who is out comes back as much later, so that nothing else changes."""
        if (late := at - self.at) > 0:
            self.flights = [replace(flight, due=flight.due + late) for flight in self.flights]
            self.at = at

    def learn(self, model: Weights, updates: Iterable[Update]) -> None:
        """Note what the selector is about to be shown."""
        self.knows = self.knows.union(model.lineage, *(update.lineage for update in updates))

    @property
    def lineage(self) -> Lineage:
        """Whose data the lane's choices go by."""
        return self.knows | self.selector.lineage

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
    def main(self) -> Node:
        """The node called "global", or its only one."""
        return self.nodes.get("global") or next(iter(self.nodes.values()))

    @property
    def model(self) -> Weights:
        """The lane's own model: that of its main node."""
        return self.main.weights

    @property
    def ready(self) -> int:
        """When the lane has what it waits for: at a meeting, everybody."""
        if self.meeting:
            return max(flight.due for flight in self.flights)
        return self.pace.ready(self.flights, self.version)

    def trip(self, flight: Flight, ended: int) -> Trip:
        return Trip(flight.client, self.name, flight.launched / SECOND, ended / SECOND)
