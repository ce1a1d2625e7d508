"""Requests that wait for their moment, in the order in which their moments come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from unknot.core.data import FederatedData
from unknot.core.errors import RequestError
from unknot.core.jobs import Score
from unknot.core.requests import Erase, Join, Label, Request, of_request
from unknot.federation.clock import SECOND
from unknot.federation.describe import Members
from unknot.federation.events import Trip
from unknot.federation.lanes import Lane
from unknot.federation.state import State

Goals = Mapping[str, int]
"""The round at which each lane rests in this run; none where it goes by time."""


@dataclass(eq=False)
class Waiting:
    """A request, and how far it has been served.

    An erasure that was `tried` and failed is the first of all that is due. Once it is `begun`, the erased
    data is out of reach; the method may still fail to repair what it spoilt (the lanes that are `touched`).
    `left` is what had not been erased before; the method is told of those of it who were `members`, or where
    nobody was, of all. `idle` says that no model here had a part in it.
    """

    request: Request
    asked: int | None = None
    """Its number, where it came from outside."""
    tried: bool = False
    begun: bool = False
    idle: bool = False
    left: Erase | None = None
    members: tuple[int, ...] = ()
    touched: list[Lane] = field(default_factory=list)
    purged: int = 0
    trips: list[Trip] = field(default_factory=list)
    """Of those who were called back for it."""
    visits: list[Trip] = field(default_factory=list)
    """What its clients did at their last visit."""
    lanes: tuple[str, ...] = ()
    """The lanes that held who is named, when it came."""
    round: int = 0
    held: Members = field(default_factory=dict)
    before: dict[str, Score] = field(default_factory=dict)

    def covers(self, request: Request) -> bool:
        """Whether what is asked for is being served already."""
        if not self.tried or not isinstance(request, Erase) or not isinstance(self.request, Erase):
            return False
        mine = {target.client: target.samples for target in self.request.targets}
        return all(
            target.client in mine
            and (
                mine[target.client] is None
                or (target.samples is not None and set(target.samples) <= set(mine[target.client] or ()))
            )
            for target in request.targets
        )


class Inbox:
    """What has been asked and not yet been served. Nothing is lost between two runs."""

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(waiting.request for waiting in self.waiting)

    @property
    def untouched(self) -> tuple[Request, ...]:
        """Those of which nothing has been served yet."""
        return tuple(waiting.request for waiting in self.waiting if not waiting.begun)

    def put(self, requests: Iterable[Request], asked: int | None = None) -> None:
        self.waiting += [Waiting(request, asked) for request in requests]

    def remove(self, waiting: Waiting) -> None:
        self.waiting.remove(waiting)

    def unknown(self, requests: Iterable[Request]) -> list[Request]:
        """Those that are not being served already: a request that failed may be asked again."""
        return [r for r in requests if not any(waiting.covers(r) for waiting in self.waiting)]

    def next_due(self, state: State, goals: Goals) -> tuple[Waiting, int] | None:
        """The request whose moment came first, and that moment, in simulated nanoseconds.

        Requests at rounds that concern a lane in common are served in the order of their rounds, and in
        that in which they were asked, whichever lane gets there first: that depends on what clients hold.
        """
        due = []
        for place, waiting in enumerate(self.waiting):
            concerned = concerned_by(state, waiting.request)
            latest = max((lane.at for lane in concerned), default=state.now)
            at = waiting.request.at
            if waiting.tried:
                due.append((-1, place, waiting, max(state.now, latest)))
            elif at.time is not None:
                if (asked := round(at.time * SECOND)) <= state.now:
                    due.append((asked, place, waiting, max(asked, latest)))
            elif _reached(concerned, at.round or 0) and not self._preceded(place, state, goals):
                due.append((latest, place, waiting, latest))
        if not due:
            return None
        _, _, waiting, moment = min(due, key=lambda item: item[:2])
        return waiting, moment

    def _preceded(self, place: int, state: State, goals: Goals) -> bool:
        """Whether a request at a round has to wait for another one that comes before it."""
        mine = self.waiting[place].request
        names = {lane.name for lane in concerned_by(state, mine)}
        for other, request in enumerate(self.requests):
            if request.at.round is None or (request.at.round, other) >= (mine.at.round, place):
                continue
            concerned = concerned_by(state, request)
            if names & {lane.name for lane in concerned} and _comes(request.at.round, concerned, goals):
                return True
        return False

    def called(self, now: int) -> bool:
        """Whether something that was asked from outside is due by its time, in nanoseconds."""
        mine = (waiting.request.at.time for waiting in self.waiting if waiting.asked is not None)
        return any(time is not None and round(time * SECOND) <= now for time in mine)

    def wakes(self) -> list[int]:
        """The times at which somebody asks for something."""
        return [round(r.at.time * SECOND) for r in self.requests if r.at.time is not None]

    def halted(self, state: State, goals: Goals) -> set[str]:
        """The lanes that wait for others: a request at a round finds all whom it concerns in that round.

        Otherwise the moment would depend on which lane is faster, and so on what its clients hold.
        """
        found: set[str] = set()
        for request in self.requests:
            if request.at.round is None:
                continue
            concerned = concerned_by(state, request)
            if _comes(request.at.round, concerned, goals):
                found |= {lane.name for lane in concerned if lane.rounds >= request.at.round}
        return found

    def may_come(self, state: State, goals: Goals, limit: int | None) -> bool:
        """Whether a run with these goals, or this limit in nanoseconds, may see a request's moment."""
        for request in self.requests:
            if request.at.time is not None:
                if limit is None or round(request.at.time * SECOND) <= limit:
                    return True
            elif _comes(request.at.round or 0, concerned_by(state, request), goals):
                return True
        return False


def held_by(state: State, request: Request) -> list[Lane]:
    """The lanes that hold who is to be erased."""
    named = _named(request)
    return [lane for lane in state.lanes.values() if lane.members & named]


def concerned_by(state: State, request: Request) -> list[Lane]:
    """The lanes that have to be at a request's round: those that it may touch, or all where it touches none.

    Beside those that hold who is named: where a selector learns from clients' held-out rows, and all of
    them where the client had a part in what the federation was given to begin with.
    """
    lanes, named = state.lanes.values(), _named(request)
    judges = state.data.validation_owner is not None
    given = state.initial.lineage | state.select_knows
    if named and not (given and named & given.clients):
        mine = [lane for lane in lanes if lane.members & named or (judges and lane.selector.learns)]
        if any(lane.members & named for lane in mine):
            return mine
    return [lane for lane in lanes if lane.members] or list(lanes)


def _named(request: Request) -> set[int]:
    return {target.client for target in request.targets} if isinstance(request, Erase) else set()


def _comes(at: int, concerned: Sequence[Lane], goals: Goals) -> bool:
    """Whether all of these lanes get to round `at` before they have had the rounds of this run."""
    return all(goals.get(lane.name, at) >= at for lane in concerned)


def _reached(concerned: Sequence[Lane], rounds: int) -> bool:
    """Whether they have had so many rounds; who has nobody left to train is not waited for."""
    return all(lane.rounds >= rounds for lane in concerned if lane.members)


def check_requests(
    new: Sequence[Request],
    waiting: Sequence[Request],
    data: FederatedData,
    members: Iterable[int],
    remembered: Iterable[int] = (),
    outside: Label | None = None,
) -> None:
    """Raise `RequestError` for what cannot be served whatever happens before.

    Rounds and times cannot be compared before the run: each kind is gone through in its own order, and
    what the other kind leaves of a request is known when its moment comes. Those that wait have been
    through this, and others may have been served since. `remembered` are clients whose data is not
    here, but has a part in what the federation was given to begin with. One request from `outside` has a
    number of its own there; what is said of it names nobody but who it names, in the words given.
    """
    for number, request in enumerate(new, 1):
        if not isinstance(request, Erase | Join):
            raise RequestError(
                f"request {number}: a request is made by unknot.erase or unknot.join; found {request!r}"
            )
    for timed in (False, True):
        numbers = [0] * len(waiting) + list(range(1, len(new) + 1))
        every = zip((*waiting, *new), numbers, strict=True)
        mine = [(r, number) for r, number in every if (r.at.time is not None) == timed]
        if not mine:
            continue
        rehearsal = _Rehearsal(data, set(members), set(remembered), outside)
        for request, number in sorted(mine, key=lambda pair: pair[0].at.time if timed else pair[0].at.round):  # type: ignore[arg-type, return-value]
            with of_request(number) if outside is None else nullcontext():
                rehearsal.take(request, strict=number > 0)


class _Gone(RequestError):
    """There is nothing left of what is to be erased."""


@dataclass
class _Rehearsal:
    """Who is there, and what of their data, if requests are served one after the other."""

    data: FederatedData
    present: set[int]
    remembered: set[int]
    outside: Label | None = None
    gone: set[int] = field(default_factory=set)
    taken: dict[int, set[int]] = field(default_factory=dict)

    def take(self, request: Request, strict: bool) -> None:
        """Raise for what cannot be done, if it is `strict`; otherwise leave that out.

        Of a request from outside what is gone already is left out, as long as there is something to do.
        """
        steps = (
            [partial(self._join, client) for client in request.clients]
            if isinstance(request, Join)
            else [partial(self._erase, target.client, target.samples) for target in request.targets]
        )
        gone = 0
        for step in steps:
            try:
                step()
            except RequestError as error:
                gone += isinstance(error, _Gone)
                spared = self.outside is not None and isinstance(error, _Gone) and gone < len(steps)
                if strict and not spared:
                    raise

    def _who(self, client: int) -> str:
        return (self.outside or self.data.label)(client)

    def _there(self) -> str:
        return f"{len(self.data)} clients" if self.outside else self.data.describe_clients()

    def _erase(self, client: int, samples: Sequence[int] | None) -> None:
        who = self._who(client)
        if self.outside is not None and samples is not None and client not in self.gone:
            samples = self._left(client, samples)
        if client in self.data and client not in self.gone:
            self.data.check_erasable(client, samples)
        elif client in self.gone or client not in self.remembered:
            if client in self.gone or client in self.data.erased:
                raise _Gone(f"{who} was already erased", "already erased")
            raise RequestError(f"cannot erase {who}: this federation has {self._there()}", "nobody is there")
        if samples is None:
            self.gone.add(client)
            return
        taken = self.taken.setdefault(client, set())
        if twice := sorted(taken & set(samples)):
            raise RequestError(
                f"{who} holds no sample {twice[0]} by then: it was already erased", "already erased"
            )
        taken.update(samples)

    def _left(self, client: int, samples: Sequence[int]) -> Sequence[int]:
        """Those samples that were not erased before, and are not about to be."""
        gone = set(self.data.reduced.get(client, ())) | self.taken.get(client, set())
        left = [sample for sample in samples if sample not in gone]
        if samples and not left:
            raise _Gone(f"these samples of {self._who(client)} were already erased", "already erased")
        return left

    def _join(self, client: int) -> None:
        who = self._who(client)
        if client in self.data.erased or (self.outside is not None and client in self.gone):
            when = "was erased" if client in self.data.erased else "is erased by then"
            raise RequestError(f"{who} cannot join again: its data {when}", "already erased")
        if client not in self.data:
            raise RequestError(f"cannot join {who}: there is data of {self._there()}", "there is no data")
        if client in self.present:
            raise RequestError(f"{who} is a member already", "a member already")
        self.present.add(client)
