"""The contract of an unlearning method.

A method decides which nodes there are, what an erasure does to those that it spoils, and what is
served. Everything else is the federation's: time, selection, training, inspection, lineage, costs.
The defaults here are plain federated learning with one model; most methods override one or two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.requests import Erase
from unknot.federation.desk import Desk
from unknot.federation.lanes import Lane


class Guarantee(Enum):
    """What a method promises of the model that it serves after an erasure."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    NONE = "none"


class Method:
    """One model, trained by all. Subclasses say how it forgets."""

    name: ClassVar[str] = "method"
    selects: ClassVar[bool] = True
    """Whether clients are chosen by the federation's selector; otherwise the method draws them itself."""
    aggregates: ClassVar[bool] = True
    """Whether updates are put together by the federation's aggregator; otherwise the method says how."""
    guarantee: ClassVar[Guarantee] = Guarantee.NONE

    @property
    def exact(self) -> bool:
        """Whether this method, as it is set up, forgets exactly."""
        return self.guarantee is Guarantee.EXACT

    @property
    def keeps(self) -> bool:
        """Whether models of a lane that the erased data had no part in go on through a request."""
        return False

    @property
    def takes_leave(self) -> bool:
        """Whether it acts at a leaver's last visit: what comes of that is not exact."""
        return getattr(self.farewell, "__func__", None) is not Method.farewell

    @property
    def promise(self) -> str:
        """The guarantee in words, with what it does not cover."""
        return self.guarantee.value

    def open(self, desk: Desk) -> None:
        """Lay out lanes and nodes for the first members."""
        self.lay_out(desk, desk.add_lane("global", desk.members))

    def lay_out(self, desk: Desk, lane: Lane) -> None:
        """The nodes of a lane; the one called "global" is the lane's model."""
        desk.add_node(lane, "global", lane.members)

    def choose(self, desk: Desk, lane: Lane, idle: NDArray[np.int64], room: int) -> Iterable[int]:
        """Which of the idle clients are sent a model now; by default as the federation selects."""
        chosen = lane.selector.choose(idle, room, desk.key.child("select", lane.name, lane.version))
        return [int(client) for client in chosen]

    def send_out(self, desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        """Look at a lane just before its model goes to these clients: for a round, or to meet a selector."""

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        """What a client that was chosen trains: every model of the lane that it is a member of."""
        return [desk.job(lane, node, client) for node in lane.nodes.values() if client in node.members]

    def absorb(self, desk: Desk, lane: Lane, updates: Sequence[Update]) -> None:
        """Put updates, in the order of client ids, into the models of this lane that they are for.

        Whatever a model becomes, it carries what it did before and what went into it.
        """
        by_node: dict[str, list[Update]] = {}
        for update in updates:
            by_node.setdefault(update.job.node, []).append(update)
        for name, mine in by_node.items():
            if name in lane.nodes:  # a tree may have changed while they were under way
                desk.combine(lane, lane.nodes[name], mine)

    def farewell(self, desk: Desk, request: Erase) -> None:
        """What is done at the last visit of who is about to be erased: for approximate methods alone.

        The data is still there, and whom it belongs to are members; `request` names only such. Jobs on
        it may be trained (`desk.train_apart`), and what comes of them be kept as nobody's
        (``desk.keepsakes.put(name, None, weights)``) for `forget`, where it is given out without the
        forbidden part of its lineage, which is on record as waived. Should this fail, nothing is kept or
        changed, nothing has been erased yet, and the request is served again.
        """

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        """Repair what an erasure spoiled.

        By now the erased data is out of reach, its clients are members of nothing, their flights
        and those from forbidden weights are cancelled, and the archive is purged. `touched` are the
        lanes whose course an erased client had a part in. Whatever node is still spoilt when this
        returns is an error.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it forgets")

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        """Let new clients take part."""
        for lane in desk.lanes.values():
            self.welcome(desk, lane, clients)

    def welcome(self, desk: Desk, lane: Lane, clients: Sequence[int]) -> None:
        """Let new clients into a lane."""
        lane.members.update(clients)
        for node in lane.nodes.values():
            node.members.update(clients)

    def serve(self, desk: Desk) -> Model:
        """The model that users get; it carries whatever was read to make it."""
        return desk.lanes["global"].nodes["global"].weights

    def conclude(self, desk: Desk) -> None:
        """What is left to do when a run is over, before the model is handed out."""

    def choices(self, desk: Desk) -> dict[str, Model]:
        """Models that could be served instead: reported side by side at the end of a run."""
        return {}


def check_method(said: str, thing: object) -> None:
    """Refuse, before it runs, a method that does not say who it is or what it does."""
    kind = thing if isinstance(thing, type) else type(thing)
    if not issubclass(kind, Method):  # a function that makes one: it is looked at when it has
        return
    if not isinstance(kind.name, str) or kind.name == Method.name:
        raise ConfigError(f"{said} has no name of its own: name = ...")
    declared = any("guarantee" in vars(base) for base in kind.__mro__ if base is not Method)
    if not declared or not isinstance(kind.guarantee, Guarantee):
        raise ConfigError(f"{said} does not say what it promises: guarantee = Guarantee.EXACT, say")
    if kind.forget is Method.forget:
        raise ConfigError(f"{said} does not say how it forgets: it has no forget(desk, request, touched)")
