"""An erasure, step by step: a last visit, close the door, drop what carries the data, repair the rest."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from unknot.core.lineage import NOBODY
from unknot.core.requests import Erase, Join, Target
from unknot.core.threads import one_thread
from unknot.core.weights import Weights
from unknot.federation.aggregators import new_aggregator
from unknot.federation.inbox import held_by
from unknot.federation.lanes import Lane, Node
from unknot.federation.method import Method
from unknot.federation.notes import Notes
from unknot.federation.state import State


def left_to_erase(state: State, request: Erase) -> Erase | None:
    """What of a request is still there to be erased; None where others have asked for all of it before."""
    targets = []
    for target in request.targets:
        if target.client in state.forgotten:
            continue
        if target.samples is not None and target.client in state.data:
            held = set(state.data[target.client].ids.tolist())
            still = tuple(i for i in target.samples if i in held)
            if not still:
                continue
            target = replace(target, samples=still)
        targets.append(target)
    return replace(request, targets=tuple(targets)) if targets else None


def left_to_join(state: State, request: Join) -> Join | None:
    """Who may still join: a client that was erased before is never admitted."""
    clients = tuple(c for c in request.clients if c not in state.forgotten and c not in state.members)
    return replace(request, clients=clients) if clients else None


def last_visit(state: State, method: Method, request: Erase) -> None:
    """Let a method that is not exact act while the data is still there: wholly, or not at all.

    Who is no member has no visit to make. The lanes of those who make one wait for it.
    """
    here = tuple(t for t in request.targets if t.client in state.members and t.client in state.data)
    if method.exact or not method.takes_leave or not here:
        return
    try:
        with attempt(state), one_thread():
            method.farewell(state.desk, replace(request, targets=here))
    finally:
        for lane in held_by(state, request):
            lane.wait_until(state.now)


def close(state: State, targets: Sequence[Target]) -> tuple[list[Lane], int]:
    """Put the data out of reach and drop what carries it; the lanes that are touched, and how much went.

    Whatever happens afterwards, no model that the data had a part in is served, sent or kept.
    """
    for target in targets:
        if target.client in state.data:
            state.data.erase(target.client, target.samples)
        state.ledger.forbid(target.client, target.samples)
        if target.samples is None:
            state.forgotten.add(target.client)
    named = {target.client for target in targets}
    gone = {target.client for target in targets if target.samples is None}
    taint = state.ledger.taint
    touched = [
        lane
        for lane in state.lanes.values()
        if lane.sent & named or taint(lane) or any(taint(node.weights) for node in lane.nodes.values())
    ]
    if state.ledger.forbidden & state.select_knows:
        state.select, state.select_knows = state.select.fresh(), NOBODY
    state.members -= gone
    for lane in state.lanes.values():
        lane.members -= gone
        for node in lane.nodes.values():
            node.members -= gone
            if taint(node.weights):  # the aggregator has seen what the model has
                node.aggregate = new_aggregator(state.aggregate)
        # By name too: a client without samples flies with no job that could be tainted.
        tainted = [f for f in lane.flights if any(taint(job) for job in f.jobs)]
        state.cancel(lane, {*tainted, *(f for f in lane.flights if f.client in gone)})
        if taint(lane) or (state.select_when == "unlearning" and lane in touched):
            state.appoint(lane)
    return touched, state.purge()


def repair(
    state: State, method: Method, request: Erase, touched: Sequence[Lane], start: Weights | None
) -> int:
    """Have the method repair what an erasure spoilt, and see that it did; how much more was dropped.

    `start` is taken in place of initial weights that the erased data shaped: then nothing can be kept.
    """
    with attempt(state), one_thread():
        if start is not None and state.ledger.taint(state.initial):
            begin_anew(state, method, start)
            touched = list(state.lanes.values())  # a method may change what comes after a request
        method.forget(state.desk, request, touched)
        for lane in state.lanes.values():
            for node in lane.nodes.values():
                state.ledger.check(node.weights, f"keep node {node.name!r} after {method.name} forgot")
            for flight in lane.flights:
                for job in flight.jobs:
                    state.ledger.check(job, f"keep {state.data.label(flight.client)} in flight")
    return state.memo.purge()


def begin_anew(state: State, method: Method, start: Weights) -> None:
    """Begin the whole federation again from another start: nobody's model is without the erased data."""
    rounds = {name: lane.rounds for name, lane in state.lanes.items()}
    for lane in state.lanes.values():
        state.cancel(lane, lane.flights)
    state.clear()
    state.initial = start
    method.open(state.desk)
    for name, lane in state.lanes.items():
        lane.rounds = rounds.get(name, max(rounds.values(), default=0))
    state.restarted += list(state.lanes)


@contextmanager
def attempt(state: State) -> Iterator[None]:
    """Within: if a method fails, lanes and keepsakes are as they were, so that it can be asked again."""
    lanes, initial, members = dict(state.lanes), state.initial, set(state.members)
    whole, cancelled = state.whole, state.costs.cancelled
    before = {name: _copied(lane) for name, lane in lanes.items()}
    nodes = [(node, _copied(node)) for lane in lanes.values() for node in lane.nodes.values()]
    try:
        with state.keeping():
            yield
    except BaseException:
        state.lanes.clear()
        state.lanes.update(lanes)
        state.initial, state.members, state.whole = initial, members, whole
        state.costs = replace(state.costs, cancelled=cancelled)  # they are out again; the rest was spent
        for name, lane in lanes.items():
            _put_back(lane, before[name])
        for node, fields in nodes:
            _put_back(node, fields)
        raise


def _copied(thing: Lane | Node) -> dict[str, object]:
    """Its fields; containers are copied, and what a method notes in them as well."""
    found = {name: getattr(thing, name) for name in thing.__slots__}
    for name, value in found.items():
        if isinstance(value, Notes):
            found[name] = value.copied()
        elif isinstance(value, set | dict | list):
            found[name] = copy.copy(value)
    return found


def _put_back(thing: Lane | Node, fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        object.__setattr__(thing, name, value)
