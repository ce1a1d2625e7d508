"""A federation as a value: all that it remembers between two steps, and a federation made of that again.

Who restores one has built the same federation anew, of the same data and settings: what comes of those is not
in a snapshot, and no client's name is. It shares what is never changed in place (weights, lineages, events)
with the federation, and has copies of the rest. What is one client's alone is marked `Private` that client.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from unknot.core.archive import Entry, Keepsakes, Kept
from unknot.core.base import Base
from unknot.core.errors import ConfigError, ErasedDataError
from unknot.core.form import (
    ANYBODY,
    LOST,
    Private,
    Unreadable,
    Written,
    at,
    attributes_of,
    plain_data,
    read,
    write,
)
from unknot.core.jobs import Job, Score
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import Erase, Join, Moment, Request, Target
from unknot.core.selection import AtRandom
from unknot.core.training import (
    SGD,
    Adagrad,
    AdaHessian,
    Adam,
    AdamW,
    ConstantRate,
    Cosine,
    NAdam,
    RAdam,
    Recipe,
    RMSprop,
    StepDecay,
    WarmUp,
)
from unknot.core.weights import Layout, Weights
from unknot.federation.aggregators import new_aggregator
from unknot.federation.describe import describe
from unknot.federation.events import Begun, Costs, Ended, Event, Round, Served, SetAside, Trip
from unknot.federation.history import History
from unknot.federation.inbox import Waiting
from unknot.federation.lanes import Flight, Lane
from unknot.federation.length import Length
from unknot.federation.notes import Notes
from unknot.federation.pace import Buffered, Pace, Synchronous
from unknot.federation.parts import Memory, check_settings, memory_of, recalled
from unknot.federation.promise import Uncovered
from unknot.federation.stint import Stint

if TYPE_CHECKING:
    from unknot.federation.federation import Federation

for _value in (
    *(
        Base,
        Layout,
        Unit,
        Key,
        Score,
        SetAside,
        Length,
        Uncovered,
        Stint,
        Costs,
        Trip,
        Begun,
        Round,
        Served,
        Ended,
    ),
    *(Recipe, SGD, Adagrad, AdaHessian, Adam, AdamW, NAdam, RAdam, RMSprop),
    *(ConstantRate, Cosine, StepDecay, WarmUp),
    *(Synchronous, Buffered, Target, Moment, Erase, Join),
):
    plain_data(_value)

T = TypeVar("T")


@plain_data
@dataclass(frozen=True)
class NodeState:
    place: str
    name: str
    members: tuple[int, ...]
    weights: Weights
    aggregate: Memory


@plain_data
@dataclass(frozen=True)
class JobState:
    unit: Unit
    start: Weights
    key: Key
    recipe: Recipe
    node: str
    version: int
    batches: Any
    others: tuple[Unit, ...]


@plain_data
@dataclass(frozen=True)
class FlightState:
    client: int
    jobs: tuple[JobState, ...]
    version: int
    launched: int
    due: int


@plain_data
@dataclass(frozen=True)
class LaneState:
    name: str
    members: tuple[int, ...]
    recipe: Recipe
    pace: Pace
    selector: Memory | None
    """None: clients are drawn at random here."""
    knows: Lineage
    numbers: dict[str, Any]
    sent: tuple[int, ...]
    notes: dict[str, Any]
    flights: tuple[FlightState, ...]
    nodes: tuple[NodeState, ...]


NUMBERS = ("at", "meeting", "version", "rounds", "ahead", "joined")


@plain_data
@dataclass(frozen=True)
class RequestState:
    """A request; of samples it has how many, and which ones apart."""

    request: Any
    ids: tuple[Any, ...]


@plain_data
@dataclass(frozen=True)
class EntryState:
    name: Any
    vector: Any
    lineage: Lineage
    layout: Layout | None
    beside: Memory | None
    unit: Unit | None
    loss: float


@plain_data
@dataclass(frozen=True)
class KeptState:
    limit: int | None
    entries: tuple[EntryState, ...]


@plain_data
@dataclass(frozen=True)
class Snapshot:
    """All that a federation remembers between two steps."""

    steps: int
    now: int
    members: tuple[int, ...]
    forgotten: tuple[int, ...]
    restarted: tuple[str, ...]
    costs: Costs
    events: tuple[Event, ...]
    """Those of its history, in order. Who logs them elsewhere may leave them out here (`count`)."""
    count: tuple[int, int]
    """How many rounds and served requests there are."""
    begun: Begun
    """Without names and words that have some: those are found anew."""
    ended: Ended
    """As far as it is known while a run goes on; the rest is found anew at its end."""
    apart: tuple[Trip, ...]
    stint: Stint
    uncovered: Uncovered
    erased: tuple[int, ...]
    reduced: dict[int, Any]
    revisions: tuple[dict[int, int], dict[int, int]]
    draws: dict[int, tuple[tuple[int, ...], Any]]
    """Of each client the revisions that are draws, and the samples of each."""
    forbidden: Lineage
    initial: Weights
    select: Memory
    select_knows: Lineage
    archive: KeptState
    memo: KeptState
    keepsakes: tuple[Lineage, KeptState] | None
    """What an approximate method let pass, and what it keeps."""
    lanes: tuple[LaneState, ...]
    waiting: tuple[dict[str, Any], ...]
    settings: dict[str, Any]


def dump(fed: Federation, events: bool = True) -> Written:
    """A snapshot in written form, with its `events` or, where a log has them, without."""
    taken = take(fed)
    return write(taken if events else replace(taken, events=()), fed.built.vector.device, _known(fed))


def load(
    fed: Federation, content: bytes, get: Callable[[str], Tensor], private: Mapping[int, bytes]
) -> Snapshot:
    """The snapshot again, for a federation that was built anew; see `unknot.core.form.read`."""
    found = read(content, get, private, fed.built.vector.device, _known(fed))
    if not isinstance(found, Snapshot):
        raise Unreadable("it is no snapshot of a federation")
    return found


def _known(fed: Federation) -> dict[str, object]:
    """What whoever restores a snapshot has as well, and need not be written."""
    recipe = fed.given.recipe
    return {
        **_settings("method", fed.method),
        "recipe": recipe,
        "optimizer": recipe.optimizer,
        "schedule": recipe.schedule,
        "loss": recipe.loss,
        "pace": fed.given.pace,
    }


def _settings(place: str, part: object) -> dict[str, object]:
    """The dataclasses that a method was given, such as the optimiser that it retrains by."""
    found: dict[str, object] = {}
    for name, value in attributes_of(part).items():
        if is_dataclass(value) and not isinstance(value, type):
            found |= {f"{place}.{name}": value, **_settings(f"{place}.{name}", value)}
    return found


def take(fed: Federation) -> Snapshot:
    """What a federation is now, between two steps; raises `NotPlain` for what could not be written."""
    state, history, stint = fed.state, fed.history, fed.stint
    if history is None or stint is None:
        raise ConfigError("a federation that has not been run has nothing to remember")
    fed.unchanged.check()
    copies, keepsakes = _Copies(), state.keepsakes_if_any
    revision, following, draws, forbidden = state.ledger.entries()
    with at("the selector "):
        select = copies(memory_of(state.select, fed.given.select))
    return Snapshot(
        steps=fed.steps,
        now=state.now,
        members=tuple(sorted(state.members)),
        forgotten=tuple(sorted(state.forgotten)),
        restarted=tuple(state.restarted),
        costs=state.costs,
        events=tuple(history.events),
        count=(len(history.rounds), len(history.served)),
        begun=replace(history.begun, guarantee="", names={}, experiment={}),
        ended=Ended(
            stopped=history.stopped,
            seconds=history.seconds,
            set_aside_observers=tuple(history.set_aside_observers),
        ),
        apart=tuple(fed.work.apart),
        stint=copies(stint),
        uncovered=replace(fed.serving.uncovered),
        erased=tuple(sorted(state.data.erased)),
        reduced={
            client: Private(client, tuple(sorted(ids))) for client, ids in sorted(state.data.reduced.items())
        },
        revisions=(dict(revision), dict(following)),
        draws={client: _draws(client, held) for client, held in draws.items() if held},
        forbidden=forbidden,
        initial=state.initial,
        select=select,
        select_knows=state.select_knows,
        archive=_kept(fed, copies, state.archive),
        memo=_kept(fed, copies, state.memo),
        keepsakes=None if keepsakes is None else (keepsakes.waived, _kept(fed, copies, keepsakes)),
        lanes=tuple(_lane(fed, copies, lane) for lane in state.lanes.values()),
        waiting=tuple(_waiting(fed, copies, one) for one in fed.serving.inbox.waiting),
        settings=dict(fed.numbers),
    )


def put(fed: Federation, snapshot: Snapshot) -> None:
    """Make a federation that was built anew what it was."""
    state, copies = fed.state, _Copies()
    _check_same(fed, snapshot)
    fed.steps, state.now, state.costs = snapshot.steps, snapshot.now, snapshot.costs
    state.members, state.forgotten = set(snapshot.members), set(snapshot.forgotten)
    state.restarted = list(snapshot.restarted)
    close(fed, snapshot)
    revision, following = map(dict, snapshot.revisions)
    state.ledger.restore((revision, following, _drawn(snapshot), snapshot.forbidden))
    fed.engine.wipe()
    state.initial, state.select_knows = snapshot.initial, snapshot.select_knows
    state.select = recalled(copy.deepcopy(fed.given.select), copies(snapshot.select))
    _put_kept(fed, copies, state.archive, snapshot.archive)
    _put_kept(fed, copies, state.memo, snapshot.memo)
    if snapshot.keepsakes is not None:
        waived, kept = snapshot.keepsakes
        _put_kept(fed, copies, state.keepsakes, kept)
        state.keepsakes.let_pass(waived)
    state.lanes.clear()
    for lane in snapshot.lanes:
        _put_lane(fed, copies, lane)
    fed.serving.inbox.waiting[:] = [_waits(fed, copies, told) for told in snapshot.waiting]
    fed.stint, fed.work.apart = copies(snapshot.stint), list(snapshot.apart)
    fed.serving.uncovered = replace(snapshot.uncovered)
    fed.work.history = _history(fed, snapshot)
    fed.work.forget_members()
    fed.scores.forget()
    check_settings(snapshot.settings, fed.numbers)


class _Copies:
    """Copies of what can be changed: what was one thing in several places is one in the copies."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def __call__(self, value: T) -> T:
        return copy.deepcopy(value, self._made)


def _check_same(fed: Federation, snapshot: Snapshot) -> None:
    """Raise `Unreadable` for a federation that was set up otherwise."""
    before, now = snapshot.begun.setup, describe(fed.method, fed.state, fed.metrics, fed.called)
    for part in ("seed", "recipe", "metrics", "model"):
        if before[part] != now[part]:
            raise Unreadable(f"the run was begun with another {part}: {before[part]}, not {now[part]}")
    if snapshot.begun.method != fed.method.name:
        raise Unreadable(f"the run was begun with {snapshot.begun.method}, not with {fed.method.name}")
    data, known = fed.state.data, {client: _opened(ids, None) for client, ids in snapshot.reduced.items()}
    less = {
        client
        for client, ids in data.reduced.items()
        if client not in snapshot.erased and (had := known.get(client, ())) is not None and not ids <= {*had}
    }
    if late := sorted((data.erased - {*snapshot.erased}) | less):
        raise ErasedDataError(
            f"{data.label(late[0])} was erased from this data, and the snapshot is from before that: restore "
            "it with the data that it was taken with, and ask for the erasure again"
        )


def close(fed: Federation, snapshot: Snapshot) -> None:
    """Put out of reach what was erased; what is not there any more, as it may be, stays erased."""
    data = fed.state.data
    for client in snapshot.erased:
        if client in data:
            data.erase(client)
        else:
            data.shut(client)
    for client, ids in snapshot.reduced.items():
        held = set(data[client].ids.tolist()) if client in data else set()
        if gone := held & set(_opened(ids, ())):
            data.erase(client, sorted(gone))


def _history(fed: Federation, snapshot: Snapshot) -> History:
    rounds, served = snapshot.count
    promise = fed.serving.uncovered.promise(fed.method, fed.state)
    found = History(
        replace(snapshot.begun, guarantee=promise, names=dict(fed.names)),
        [event for event in snapshot.events if isinstance(event, Round)][:rounds],
        [event for event in snapshot.events if isinstance(event, Served)][:served],
        snapshot.ended,
        judge=fed.metrics[0],
    )
    if (len(found.rounds), len(found.served)) != snapshot.count:
        raise Unreadable(f"there are {len(snapshot.events)} events, and it knows of {rounds + served}")
    return found


def _opened(part: Any, otherwise: Any) -> Any:
    """What was one client's alone, or where its key is gone something else."""
    return otherwise if part is LOST else part.value


# What is kept ------------------------------------------------------------------------------------------


def _draws(client: int, held: dict[Unit, frozenset[int]]) -> tuple[tuple[int, ...], Private]:
    return tuple(unit.revision for unit in held), Private(
        client, tuple(tuple(sorted(ids)) for ids in held.values())
    )


def _drawn(snapshot: Snapshot) -> dict[int, dict[Unit, frozenset[int]]]:
    """The draws again; of samples that are lost their revisions remain, so that they can be forbidden."""
    found = {}
    for client, (revisions, part) in snapshot.draws.items():
        samples = _opened(part, ((),) * len(revisions))
        found[client] = {
            Unit(client, number): frozenset(ids) for number, ids in zip(revisions, samples, strict=True)
        }
    return found


def _kept(fed: Federation, copies: _Copies, kept: Kept) -> KeptState:
    """What is kept of a client's unit is that client's alone; a keepsake of nobody is under no key."""
    found = []
    for name, entry in kept.entries():
        with at(f"what is kept as {name!r}"):
            beside = (
                None if entry.beside is None else memory_of(entry.beside, new_aggregator(fed.state.aggregate))
            )
        owner = entry.unit.client if entry.unit else None if isinstance(kept, Keepsakes) else ANYBODY
        vector = Private(owner, entry.vector, entry.lineage)
        found.append(
            EntryState(name, vector, entry.lineage, entry.layout, copies(beside), entry.unit, entry.loss)
        )
    return KeptState(kept.limit, tuple(found))


def _put_kept(fed: Federation, copies: _Copies, kept: Kept, told: KeptState) -> None:
    kept.clear()
    kept.limit = told.limit
    for one in told.entries:
        vector = one.vector.value if isinstance(one.vector, Private) else one.vector
        beside: Any = None
        if one.beside is not None:
            beside = recalled(new_aggregator(fed.state.aggregate), copies(one.beside))
        kept.keep(one.name, Entry(vector, one.lineage, one.layout, beside, one.unit, one.loss))


# Lanes and requests ------------------------------------------------------------------------------------


def _lane(fed: Federation, copies: _Copies, lane: Lane) -> LaneState:
    like, given = new_aggregator(fed.state.aggregate), fed.given
    drawn = type(lane.selector) is AtRandom and type(given.select) is not AtRandom
    with at(f"lane {lane.name!r}"):
        lane.notes.check()
        with at(" selector "):
            selector = None if drawn else memory_of(lane.selector, given.select)
        nodes = []
        for place, node in lane.nodes.items():
            with at(f" node {place!r} aggregator "):
                memory = copies(memory_of(node.aggregate, like))
            nodes.append(NodeState(place, node.name, tuple(node.members), node.weights, memory))
    return LaneState(
        lane.name,
        tuple(lane.members),
        lane.recipe,
        lane.pace,
        copies(selector),
        lane.knows,
        copies({name: getattr(lane, name) for name in NUMBERS}),
        tuple(lane.sent),
        copies(dict(lane.notes)),
        tuple(_flight(flight) for flight in lane.flights),
        tuple(nodes),
    )


def _put_lane(fed: Federation, copies: _Copies, told: LaneState) -> None:
    selector: Any = AtRandom()
    if told.selector is not None:
        selector = recalled(copy.deepcopy(fed.given.select), copies(told.selector))
    lane = Lane(told.name, set(told.members), told.recipe, told.pace, selector, knows=told.knows)
    for name, value in copies(told.numbers).items():
        setattr(lane, name, value)
    lane.sent, lane.notes = set(told.sent), Notes(told.name, copies(told.notes))
    lane.flights = [_flies(flight) for flight in told.flights]
    fed.state.lanes[told.name] = lane
    nodes = {}
    for one in told.nodes:
        node = fed.state.add_node(lane, one.name, one.members, one.weights)
        node.aggregate = recalled(node.aggregate, copies(one.aggregate))
        nodes[one.place] = lane.nodes.pop(one.name)
    lane.nodes.update(nodes)


def _flight(flight: Flight) -> FlightState:
    jobs = (
        JobState(
            *(job.unit, job.start, job.key, job.recipe, job.node, job.version),
            None if job.batches is None else Private(job.client, job.batches),
            job.others,
        )
        for job in flight.jobs
    )
    return FlightState(flight.client, tuple(jobs), flight.version, flight.launched, flight.due)


def _flies(told: FlightState) -> Flight:
    jobs = (
        Job(
            *(one.unit, one.start, one.key, one.recipe, one.node, one.version),
            None if one.batches is None else _opened(one.batches, ()),
            one.others,
        )
        for one in told.jobs
    )
    return Flight(told.client, tuple(jobs), told.version, told.launched, told.due)


def _waiting(fed: Federation, copies: _Copies, waiting: Waiting) -> dict[str, Any]:
    told = copies(dict(vars(waiting), touched=[lane.name for lane in waiting.touched]))
    left = None if waiting.left is None else _hidden(fed, waiting.left)
    return {**told, "request": _hidden(fed, waiting.request), "left": left}


def _waits(fed: Federation, copies: _Copies, told: dict[str, Any]) -> Waiting:
    lanes = fed.state.lanes
    touched = [lanes[name] for name in told["touched"] if name in lanes]
    left = None if told["left"] is None else _shown(told["left"])
    return Waiting(**{**copies(told), "touched": touched, "request": _shown(told["request"]), "left": left})


def _hidden(fed: Federation, request: Request) -> RequestState:
    """The same request with the ids of samples apart: each client's are its own, and gone where that is."""
    if not isinstance(request, Erase):
        return RequestState(request, ())
    gone = fed.state.data.erased
    ids = (
        Private(one.client, one.samples) if one.samples and one.client not in gone else None
        for one in request.targets
    )
    counted = (
        replace(one, samples=one.samples and tuple(range(len(one.samples)))) for one in request.targets
    )
    return RequestState(replace(request, targets=tuple(counted)), tuple(ids))


def _shown(told: RequestState) -> Any:
    """The request itself; of who was erased since there are as many samples, and nobody knows which."""
    if not isinstance(told.request, Erase):
        return told.request
    targets = zip(told.request.targets, told.ids, strict=True)
    known = (one if not ids else replace(one, samples=_opened(ids, one.samples)) for one, ids in targets)
    return replace(told.request, targets=tuple(known))
