"""A federation as data: all that it remembers in written form, and a federation made of that again.

Who reads it has built the same federation anew, from the same data and settings: what comes of those is not
written, and neither is any client's name, nor which samples a request names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from unknot.core import written
from unknot.core.base import Base
from unknot.core.errors import ConfigError, StoreError
from unknot.core.jobs import Job, Score
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.requests import Erase, Join, Moment, Target
from unknot.core.selection import AtRandom
from unknot.core.training import (
    SGD,
    Adagrad,
    AdaHessian,
    Adam,
    AdamW,
    ConstantRate,
    Cosine,
    Recipe,
    RMSprop,
    StepDecay,
    WarmUp,
)
from unknot.core.weights import Layout
from unknot.core.written import NotPlain, Reader, Unreadable, Writer, Written, plain_data
from unknot.federation.asked import Ids, Known, named_in, next_ids, waiting_of, written_of
from unknot.federation.events import Begun, Costs, Ended, Event, Round, Served, SetAside, Trip
from unknot.federation.history import History
from unknot.federation.lanes import Flight, Lane
from unknot.federation.length import Length
from unknot.federation.notes import INSTEAD, Notes
from unknot.federation.pace import Buffered, Synchronous
from unknot.federation.parts import (
    check_numbers,
    prove,
    put_aggregate,
    put_part,
    take_aggregate,
    take_part,
)
from unknot.federation.promise import Uncovered

if TYPE_CHECKING:
    from unknot.federation.federation import Federation

for _plain in (
    *(Base, Layout, Unit, Key, Job, Flight, Score, SetAside, Length, Uncovered),
    *(Recipe, SGD, Adagrad, AdaHessian, Adam, AdamW, RMSprop, ConstantRate, Cosine, StepDecay, WarmUp),
    *(Synchronous, Buffered, Target, Moment, Erase, Join, Costs, Trip, Round, Served),
):
    plain_data(_plain)

FORMAT = 3
LASTING = ("method", "seed", "setup", "members", "nodes", "seconds", "stopped")
"""What of a history is written; rounds and requests are events, the rest is found anew, names with it."""


def write(fed: Federation) -> Written:
    """All that a federation remembers between two steps, but for the events of its history.

    Of samples that were erased, or are to be, it has how many: which ones, `ids_of` says.
    """
    state, history = fed.state, fed.history
    if history is None:
        raise ConfigError("a federation that has not been run has nothing to remember")
    fed.settings.check()
    out = Writer(_known(fed), fed.built.vector.device)
    out.put(FORMAT)
    with out.at("the federation"):
        out.put([fed.steps, state.now, state.members, state.forgotten, state.costs, state.restarted])
        out.put([len(history.rounds), len(history.served)])
        out.put(sorted(state.data.erased))
        out.put({client: len(ids) for client, ids in sorted(state.data.reduced.items())})
        out.put([fed._stint, fed.work.apart, fed.serving.uncovered])
        out.put({name: getattr(history, name) for name in LASTING})
        out.put(history.set_aside_observers)
    with out.at("the ledger"):
        out.put(state.ledger.entries())
    with out.at("the initial weights"):
        out.put(state.initial)
    with out.at("the selector "):
        out.put(state.select_knows)
        put_part(out, fed, state.select, fed.given.select)
    with out.at("what is kept"):
        _put_archive(out, fed)
        _put_memo(out, fed)
        _put_keepsakes(out, fed)
    out.put(len(state.lanes))
    for lane in state.lanes.values():
        with out.at(f"lane {lane.name!r}"):
            _put_lane(out, fed, lane)
    with out.at("a request"):
        out.put([written_of(waiting) for waiting in fed.serving.inbox.waiting])
    out.put(fed.numbers)
    return out.written()


def ids_of(fed: Federation) -> list[Ids]:
    """Which samples of whom what is written knows: those that were erased, and those that are to be."""
    data = fed.state.data
    found = [(client, tuple(sorted(ids))) for client, ids in sorted(data.reduced.items())]
    for waiting in fed.serving.inbox.waiting:
        found += [(one.client, one.samples or ()) for one in named_in(waiting, data.erased)]
    return found


def restore(
    fed: Federation,
    content: bytes,
    get: Callable[[str], Tensor],
    events: list[bytes],
    ids: Iterable[Known] = (),
    check: Callable[[Mapping[str, Any]], None] = lambda setup: None,
) -> None:
    """Make a federation that was built anew what it was when this was written.

    `get` gives tensors by digest, `events` are those of its history (`write_event`), in order; those that
    came later may be among them. `ids` are those of `ids_of`, None where nobody knows them any more. `check`
    is given what the federation was set up as, before what depends on that is read. Raises `Unreadable` if
    these do not fit together.
    """
    read = Reader(content, get, _known(fed), fed.data.names, fed.built.vector.device)
    try:
        _restore(fed, read, events, iter(ids), check)
    except (written.NotPlain, Unreadable, ConfigError, StoreError):
        raise
    except Exception as error:  # of content that somebody made up
        raise Unreadable(f"what was written does not fit this federation: {error}") from None


def write_event(fed: Federation, event: Event) -> bytes:
    """An event of a history by itself."""
    out = Writer(_known(fed))
    out.put(event)
    return out.written().content


def read_event(fed: Federation, content: bytes) -> Event:
    event = Reader(content, known=_known(fed), names=fed.data.names).read()
    if not isinstance(event, Round | Served):
        raise Unreadable("what was written as an event is none")
    return event


def _known(fed: Federation) -> dict[str, object]:
    """What whoever reads it has as well."""
    setup = fed.given
    known: dict[str, object] = {
        "initial": fed.built,
        "restart": fed.serving.restart,
        "recipe": setup.recipe,
        "optimizer": setup.recipe.optimizer,
        "schedule": setup.recipe.schedule,
        "loss": setup.recipe.loss,
        "pace": setup.pace,
        "layout": fed.built.layout,
    }
    return {name: thing for name, thing in known.items() if thing is not None}


# What is kept ------------------------------------------------------------------------------------------


def _put_archive(out: Writer, fed: Federation) -> None:
    archive = fed.state.archive
    out.put([archive.room, len(archive)])
    for name, kept in archive.entries():
        out.put([name, kept.layout, kept.lineage])
        out.named(kept.digest, kept.load, kept.device, kept.lineage, lasting=True)
        put_aggregate(out, fed, kept.beside)


def _put_memo(out: Writer, fed: Federation) -> None:
    memo = fed.state.memo
    out.put([memo.room, len(memo)])
    for name, kept in memo.entries():
        out.put([name, kept.unit, kept.lineage, kept.loss])
        assert kept.unit is not None
        with out.of(kept.unit.client):
            out.named(kept.digest, kept.load, kept.device, kept.lineage, lasting=True)


def _put_keepsakes(out: Writer, fed: Federation) -> None:
    kept = fed.state._kept
    out.put(kept is not None)
    if kept is None:
        return
    entries = kept.entries()
    out.put([kept.limit, kept.waived, len(entries)])
    for name, unit, weights in entries:
        out.put([name, unit])
        with out.of_nobody() if unit is None else out.of(unit.client):
            out.put(weights)


def _take_kept(read: Reader, fed: Federation) -> None:
    state = fed.state
    room, count = read.read()
    state.archive.clear(room)
    for _ in range(count):
        name, layout, lineage = read.read()
        vector = read.read()
        state.archive.restore(name, vector, layout, lineage, take_aggregate(read, fed))
    room, count = read.read()
    state.memo.clear(room)
    for _ in range(count):
        name, unit, lineage, loss = read.read()
        state.memo.restore(name, read.read(), unit, lineage, loss)
    if not read.read():
        return
    limit, waived, count = read.read()
    kept = state.keepsakes
    kept.clear()
    kept.limit = limit
    for _ in range(count):
        name, unit = read.read()
        kept.put(name, unit, read.read())
    kept.let_pass(waived)


# Lanes ---------------------------------------------------------------------------------------------------


def _put_lane(out: Writer, fed: Federation, lane: Lane) -> None:
    out.put([lane.name, set(lane.members), lane.recipe, lane.pace, lane.at, lane.knows, lane.meeting])
    out.put([lane.version, lane.rounds, lane.ahead, lane.flights, set(lane.sent), lane.joined])
    with out.at(" notes"), out.structure(INSTEAD):
        prove(out, fed, lane.name, dict(lane.notes))
    lane.notes.write(out)
    plain = type(lane.selector) is AtRandom and type(fed.state.select) is not AtRandom
    out.put(plain)
    if not plain:
        with out.at(" selector "):
            put_part(out, fed, lane.selector, fed.given.select)
    out.put(len(lane.nodes))
    for name, node in lane.nodes.items():
        with out.at(f" node {name!r}"):
            out.put([name, node.name, set(node.members), node.weights])
            put_aggregate(out, fed, node.aggregate)


def _take_lane(read: Reader, fed: Federation) -> Lane:
    name, members, recipe, pace, at, knows, meeting = read.read()
    version, rounds, ahead, flights, sent, joined = read.read()
    notes = _notes(name, read.read())
    selector: Any = AtRandom() if read.read() else take_part(read, copy.deepcopy(fed.given.select))
    lane = Lane(name, members, recipe, pace, selector, at, knows, meeting)
    lane.version, lane.rounds, lane.ahead = version, rounds, ahead
    lane.flights, lane.sent, lane.joined, lane.notes = flights, sent, joined, notes
    fed.state.lanes[name] = lane
    for _ in range(read.read()):
        key, called, members, weights = read.read()
        node = fed.state.add_node(lane, called, members, weights)
        node.aggregate = take_aggregate(read, fed)
        if key != called:
            del lane.nodes[called]
            lane.nodes[key] = node
    return lane


def _notes(lane: str, told: dict[str, Any]) -> Notes:
    try:
        return Notes(lane, told)
    except NotPlain as error:  # nobody has written that
        raise Unreadable(str(error)) from None


# History ------------------------------------------------------------------------------------


def _restore(
    fed: Federation,
    read: Reader,
    events: list[bytes],
    ids: Iterator[Known],
    check: Callable[[Mapping[str, Any]], None],
) -> None:
    state = fed.state
    if (found := read.read()) != FORMAT:
        raise Unreadable(f"it is of the format {found}, and this version of unknot reads {FORMAT}")
    fed.steps, state.now, state.members, state.forgotten, state.costs, state.restarted = read.read()
    rounds, served = read.read()
    for client in read.read():
        if client in state.data:
            state.data.erase(client)
        else:  # its files are gone, as they should be: it is erased all the same
            state.data.shut(client)
    for client, count in read.read().items():
        gone = set(next_ids(ids, client, count) or ())
        held = set(state.data[client].ids.tolist()) & gone if client in state.data else set()
        if held:
            state.data.erase(client, sorted(held))
    fed._stint, fed.work.apart, fed.serving.uncovered = read.read()
    lasting, aside = read.read(), read.read()
    check(lasting["setup"])
    state.ledger.restore(read.read())
    state.initial = read.read()
    state.select_knows = read.read()
    state.select = take_part(read, copy.deepcopy(fed.given.select))
    _take_kept(read, fed)
    state.lanes.clear()
    for _ in range(read.read()):
        _take_lane(read, fed)
    fed.serving.inbox.waiting[:] = [waiting_of(told, fed, ids) for told in read.read()]
    check_numbers(read.read(), fed.numbers)
    if not read.ended:
        raise Unreadable("there is more than was to be written")
    promise = fed.serving.uncovered.promise(fed.method, state)
    seconds, stopped = lasting.pop("seconds"), lasting.pop("stopped")
    main = fed.metrics[0]
    history = History(
        Begun(
            **lasting,
            guarantee=promise,
            metric=main.name,
            metric_falls=main.falls,
            metric_share=main.share,
            names=dict(fed.data.names),
        ),
        ended=Ended(seconds=seconds, stopped=stopped, set_aside_observers=aside),
    )
    for content in events:
        event = read_event(fed, content)
        if isinstance(event, Round) and len(history.rounds) < rounds:
            history.rounds.append(event)
        if isinstance(event, Served) and len(history.served) < served:
            history.served.append(event)
    if (len(history.rounds), len(history.served)) != (rounds, served):
        raise Unreadable(f"there are {len(events)} events, and it knows of {rounds + served}")
    fed.work.history = history
    fed.work.forget_members()
    fed.scores.forget()
