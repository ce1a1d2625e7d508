"""An erasure, step by step: close the door on the data, drop what carries it, repair the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from unknot.core.lineage import NOBODY
from unknot.core.requests import Erase, Join, Target
from unknot.core.threads import one_thread
from unknot.core.weights import Weights
from unknot.federation.aggregate import new_aggregator
from unknot.federation.desk import Desk
from unknot.federation.lanes import Lane, Node
from unknot.federation.method import Method


def left_to_erase(desk: Desk, request: Erase) -> Erase | None:
    """What of a request is still there to be erased; None where others have asked for all of it before."""
    targets = []
    for target in request.targets:
        if target.client in desk.forgotten:
            continue
        if target.samples is not None and target.client in desk.data:
            held = set(desk.data[target.client].ids.tolist())
            still = tuple(i for i in target.samples if i in held)
            if not still:
                continue
            target = replace(target, samples=still)
        targets.append(target)
    return replace(request, targets=tuple(targets)) if targets else None


def left_to_join(desk: Desk, request: Join) -> Join | None:
    """Who may still join: a client that was erased before is never admitted."""
    clients = tuple(c for c in request.clients if c not in desk.forgotten and c not in desk.members)
    return replace(request, clients=clients) if clients else None


def close(desk: Desk, targets: Sequence[Target]) -> tuple[list[Lane], int]:
    """Put the data out of reach and drop what carries it; the lanes that are touched, and how much went.

    Whatever happens afterwards, no model that the data had a part in is served, sent or kept.
    """
    for target in targets:
        if target.client in desk.data:
            desk.data.erase(target.client, target.samples)
        desk.ledger.forbid(target.client, target.samples)
        if target.samples is None:
            desk.forgotten.add(target.client)
    named = {target.client for target in targets}
    gone = {target.client for target in targets if target.samples is None}
    taint = desk.ledger.taint
    touched = [
        lane
        for lane in desk.lanes.values()
        if lane.sent & named or taint(lane) or any(taint(node.weights) for node in lane.nodes.values())
    ]
    if desk.ledger.forbidden & desk.select_knows:
        desk.select, desk.select_knows = desk.select.fresh(), NOBODY
    desk.members -= gone
    for lane in desk.lanes.values():
        lane.members -= gone
        for node in lane.nodes.values():
            node.members -= gone
            if taint(node.weights):  # the aggregator has seen what the model has
                node.aggregate = new_aggregator(desk.aggregate)
        # By name too: a client without samples flies with no job that could be tainted.
        tainted = [f for f in lane.flights if any(taint(job) for job in f.jobs)]
        desk.cancel(lane, {*tainted, *(f for f in lane.flights if f.client in gone)})
        if taint(lane) or (desk.select_when == "unlearning" and lane in touched):
            desk.appoint(lane)
    return touched, desk.purge()


def repair(desk: Desk, method: Method, request: Erase, touched: Sequence[Lane], start: Weights | None) -> int:
    """Have the method repair what an erasure spoilt, and see that it did; how much more was dropped.

    `start` is taken in place of initial weights that the erased data shaped: then nothing can be kept.
    """
    with attempt(desk), one_thread():
        if start is not None and desk.ledger.taint(desk.initial):
            begin_anew(desk, method, start)
            touched = list(desk.lanes.values())  # a method may change what comes after a request
        method.forget(desk, request, touched)
    purged = desk.memo.purge()
    for lane in desk.lanes.values():
        for node in lane.nodes.values():
            desk.ledger.check(node.weights, f"keep node {node.name!r} after {method.name} forgot")
        for flight in lane.flights:
            for job in flight.jobs:
                desk.ledger.check(job, f"keep client {flight.client} in flight")
    return purged


def begin_anew(desk: Desk, method: Method, start: Weights) -> None:
    """Begin the whole federation again from another start: nobody's model is without the erased data."""
    rounds = {name: lane.rounds for name, lane in desk.lanes.items()}
    for lane in desk.lanes.values():
        desk.cancel(lane, lane.flights)
    desk.clear()
    desk.initial = start
    method.open(desk)
    for name, lane in desk.lanes.items():
        lane.rounds = rounds.get(name, max(rounds.values(), default=0))
    desk.restarted += list(desk.lanes)


@contextmanager
def attempt(desk: Desk) -> Iterator[None]:
    """Within: if a method fails, lanes are put back as they were, so that it can be asked again."""
    lanes, initial, members = dict(desk.lanes), desk.initial, set(desk.members)
    before = {name: _copied(lane) for name, lane in lanes.items()}
    nodes = [(node, _copied(node)) for lane in lanes.values() for node in lane.nodes.values()]
    try:
        yield
    except BaseException:
        desk.lanes.clear()
        desk.lanes.update(lanes)
        desk.initial, desk.members = initial, members
        for name, lane in lanes.items():
            vars(lane).update(before[name])
        for node, fields in nodes:
            vars(node).update(fields)
        raise


def _copied(thing: Lane | Node) -> dict[str, Any]:
    """Its fields; containers are copied, and what a method notes in them as well."""
    fields: dict[str, Any] = {
        name: copy.copy(value) if isinstance(value, set | dict | list) else value
        for name, value in vars(thing).items()
    }
    if "notes" in fields:
        fields["notes"] = {name: copy.copy(value) for name, value in fields["notes"].items()}
    return fields
