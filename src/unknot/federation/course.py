"""Whose data had a part in how a lane went: for methods that let it go on through a request."""

from __future__ import annotations

import torch

from unknot.core.lineage import NOBODY, Lineage
from unknot.core.weights import Layout, Weights
from unknot.federation.desk import Desk
from unknot.federation.lanes import Lane
from unknot.federation.pace import Synchronous


def course(desk: Desk, lane: Lane) -> Weights:
    """No numbers, but whose data had a part in who took part in this lane's rounds.

    A selector may know clients, some may have been too slow for others to be waited for, and what was sent
    back may be no numbers.
    """
    shaped = lane.lineage | lane.model.lineage
    if not isinstance(lane.pace, Synchronous):
        shaped |= desk.ledger.units(lane.sent - desk.forgotten)
    return Weights(torch.empty(0), Layout((), ()), shaped)


def keep_course(desk: Desk, lane: Lane) -> None:
    """At a last visit: keep whose course it was, for `let_pass`."""
    desk.keepsakes.put(("course", lane.name), None, course(desk, lane))


def let_pass(desk: Desk, lane: Lane) -> Lineage:
    """While it forgets: put on record who was erased and had a part in the course that goes on."""
    kept = desk.keepsakes.take(("course", lane.name))
    return NOBODY if kept is None else NOBODY.waiving(kept.lineage.waived)
