"""Standalone: what central training on all the data would give, the upper baseline of paper E.

One model is trained in one place on the data of all clients together. A request trains it again
from scratch on what remains. Nothing here is federated: it shows what federation itself costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unknot.core.jobs import Job
from unknot.core.requests import Erase
from unknot.federation import Desk, Guarantee, Lane, Method


@dataclass(frozen=True)
class Standalone(Method):
    """A yardstick, not federated: central training on all remaining data, anew when somebody leaves.

    A round is one local schedule of the recipe on the pooled data. It is timed as if the client
    with the lowest number did it.
    """

    name = "standalone"
    selects = False
    guarantee = Guarantee.EXACT

    def open(self, desk: Desk) -> None:
        desk.add_node(desk.add_lane("global", _one(desk)), "global", desk.members)

    def jobs(self, desk: Desk, lane: Lane, client: int) -> list[Job]:
        node = lane.nodes["global"]
        first, *others = (desk.ledger.unit(member) for member in sorted(desk.members))
        key = desk.key.child("train", node.name, lane.version, "all")
        return [Job(first, node.weights, key, lane.recipe, node.name, lane.version, others=tuple(others))]

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            desk.restart(lane)
        desk.lanes["global"].members = _one(desk)

    def admit(self, desk: Desk, clients: Sequence[int]) -> None:
        lane = desk.lanes["global"]
        lane.members = _one(desk)
        lane.nodes["global"].members.update(clients)


def _one(desk: Desk) -> set[int]:
    """Who stands for all of them in the loop."""
    return {min(desk.members)} if desk.members else set()
