"""Requests to a federation: to be forgotten, or to join; at a round or at a time.

What names clients, samples and moments is read here, once: whatever comes in (NumPy's numbers,
arrays, sets, what a TOML file says), plain whole numbers go on, or the request is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, overload

from unknot.core.errors import RequestError
from unknot.core.ids import Id, client_id, client_ids, items_of, plain, sample_ids, whole_number

if TYPE_CHECKING:
    from unknot.core.data import FederatedData

Label = Callable[[int], str]
"""What a client is called."""


def numbered(client: int) -> str:
    return f"client {client}"


def some_of(who: str, samples: int | None) -> str:
    """A client, or so many samples of it, in words."""
    if samples is None:
        return who
    return f"{samples} sample{'s' if samples > 1 else ''} of {who}"


@dataclass(frozen=True)
class Target:
    """A client to be erased whole, or the samples of it that are (their ids, ascending)."""

    client: int
    samples: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", client_id(self.client))
        if self.samples is not None:
            object.__setattr__(self, "samples", sample_ids(self.samples, numbered(self.client)))

    def told(self, label: Label = numbered) -> str:
        """In words, with clients as people call them."""
        return some_of(label(self.client), None if self.samples is None else len(self.samples))

    def __str__(self) -> str:
        return self.told()


@dataclass(frozen=True)
class Moment:
    """After so many rounds, or at a simulated second; neither: as soon as it is asked."""

    round: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if self.round is not None and self.time is not None:
            raise RequestError("a request comes at a round or at a time: give exactly one of them")
        if self.round is not None:
            object.__setattr__(self, "round", whole_number(self.round, "the round of a request"))
        if self.time is not None:
            seconds = plain(self.time)
            real = isinstance(seconds, Real) and not isinstance(seconds, bool)
            if not real or not 0 <= seconds < math.inf:
                raise RequestError(
                    f"the time of a request must be a finite number of seconds, 0 or more, not {self.time!r}"
                )
            object.__setattr__(self, "time", float(seconds))

    @property
    def now(self) -> bool:
        """Whether it comes as soon as it is asked."""
        return self.round is None and self.time is None

    def __str__(self) -> str:
        if self.now:
            return "once"
        return f"round {self.round}" if self.time is None else f"{self.time:g} s"


@dataclass(frozen=True)
class Erase:
    """Forget these clients or samples, all in one go."""

    targets: tuple[Target, ...]
    """Who, or what of whom."""
    at: Moment
    """The round or the time."""

    def __post_init__(self) -> None:
        if not client_ids([target.client for target in self.targets]):
            raise RequestError("an erasure names at least one client")

    def told(self, label: Label = numbered) -> str:
        """In words, with clients as people call them."""
        return "erase " + ", ".join(target.told(label) for target in self.targets)

    def __str__(self) -> str:
        return self.told()


@dataclass(frozen=True)
class Join:
    """Let these clients take part from now on; before, they are not members."""

    clients: tuple[int, ...]
    """Their numbers."""
    at: Moment
    """The round or the time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", client_ids(self.clients))
        if not self.clients:
            raise RequestError("a join names at least one client")

    def told(self, label: Label = numbered) -> str:
        """In words, with clients as people call them."""
        return "join " + ", ".join(map(label, self.clients))

    def __str__(self) -> str:
        return self.told()


Request = Erase | Join


@dataclass(frozen=True)
class Named:
    """A request that calls clients by their names. Who that is, a federation's data knows: `resolve`.

    `clients` are names, or numbers among them, each with the ids of some samples, or None for all of it.
    """

    kind: str
    clients: tuple[tuple[int | str, tuple[int, ...] | None], ...]
    at: Moment

    def resolve(self, data: FederatedData) -> Request:
        """The same request by numbers; raises `RequestError` for a name that nobody has."""
        numbers = {}
        for client, samples in self.clients:
            number = data.number(client)
            if number in numbers:
                raise RequestError(f"{data.label(number)} is named twice")
            numbers[number] = samples
        if self.kind == "join":
            return Join(tuple(numbers), self.at)
        return Erase(tuple(Target(client, numbers[client]) for client in sorted(numbers)), self.at)

    def __str__(self) -> str:
        told = (
            some_of(c if isinstance(c, str) else numbered(c), None if ids is None else len(ids))
            for c, ids in self.clients
        )
        return f"{self.kind} {', '.join(told)}"


def resolved(requests: Iterable[Request | Named], data: FederatedData, now: float = 0.0) -> list[Request]:
    """Requests with names in them as requests by numbers; `now` is when those come that come at once."""
    found = []
    for number, request in enumerate(requests, 1):
        with of_request(number):
            found.append(arrived(request, data, now))
    return found


def arrived(request: Request | Named, data: FederatedData, now: float) -> Request:
    """One request by numbers; `now` is when it comes, if it comes at once."""
    made = request.resolve(data) if isinstance(request, Named) else request
    at_once = isinstance(made, Erase | Join) and made.at.now
    return replace(made, at=Moment(time=now)) if at_once else made


@contextmanager
def of_request(number: int) -> Iterator[None]:
    """Within: an error says which of several requests it is about."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"request {number}: {error}") from None


@overload
def erase(
    what: Id | Iterable[Id] | Mapping[Id, Iterable[Id] | None],
    *,
    round: int | None = None,
    time: float | None = None,
) -> Erase: ...
@overload
def erase(
    what: str | Iterable[Id | str] | Mapping[Id | str, Iterable[Id] | None],
    *,
    round: int | None = None,
    time: float | None = None,
) -> Erase | Named: ...
def erase(what: Any, *, round: int | None = None, time: float | None = None) -> Erase | Named:
    """``erase(3, round=10)``, ``erase([3, 5], time=140)``, ``erase({3: [0, 1]}, round=10)``.

    `what` is a client, several, or a mapping from clients to the ids of some of their samples. Where clients
    have names, these do as well: ``erase("Graz", round=10)``. It is served after the `round` of this number,
    or at this simulated `time` in seconds; with neither, as soon as it is asked.
    """
    pairs = what.items() if isinstance(what, Mapping) else [(client, None) for client in items_of(what)]
    if any(isinstance(client, str) for client, _ in pairs):
        return Named("erase", tuple(_with_samples(*pair) for pair in pairs), Moment(round, time))
    targets = [Target(*pair) for pair in pairs]
    return Erase(tuple(sorted(targets, key=lambda target: target.client)), Moment(round, time))


@overload
def join(clients: Id | Iterable[Id], *, round: int | None = None, time: float | None = None) -> Join: ...
@overload
def join(
    clients: str | Iterable[Id | str], *, round: int | None = None, time: float | None = None
) -> Join | Named: ...
def join(clients: Any, *, round: int | None = None, time: float | None = None) -> Join | Named:
    """``join(7, round=20)``: client 7 takes no part before. ``join("Linz", round=20)``, by its name.

    `clients` is one or several, by number or by name. They join after the `round` of this number, or at this
    simulated `time` in seconds; with neither, as soon as it is asked.
    """
    named = items_of(clients)
    if any(isinstance(client, str) for client in named):
        return Named("join", tuple(_with_samples(client, None) for client in named), Moment(round, time))
    return Join(client_ids(named), Moment(round, time))


def _with_samples(client: object, ids: object) -> tuple[int | str, tuple[int, ...] | None]:
    who = client if isinstance(client, str) else client_id(client)
    told = who if isinstance(who, str) else numbered(who)
    return who, None if ids is None else sample_ids(ids, told)
