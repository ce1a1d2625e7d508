"""Requests to a federation: to be forgotten, or to join; at a round or at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unknot.core.errors import RequestError


@dataclass(frozen=True)
class Target:
    """A client to be erased whole, or the samples of it that are."""

    client: int
    samples: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.samples is None:
            return f"client {self.client}"
        n = len(self.samples)
        return f"{n} sample{'s' if n > 1 else ''} of client {self.client}"


@dataclass(frozen=True)
class Moment:
    """After so many rounds, or at a simulated second. Exactly one of them."""

    round: int | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if (self.round is None) == (self.time is None):
            raise RequestError("a request comes at a round or at a time: give exactly one of them")
        value = self.round if self.time is None else self.time
        if value is None or not value >= 0:
            raise RequestError(f"a request cannot come at {self}")

    def __str__(self) -> str:
        return f"round {self.round}" if self.time is None else f"{self.time:g} s"


@dataclass(frozen=True)
class Erase:
    """Forget these clients or samples, all in one go."""

    targets: tuple[Target, ...]
    at: Moment

    def __post_init__(self) -> None:
        clients = [target.client for target in self.targets]
        if not clients:
            raise RequestError("an erasure names at least one client")
        if len(set(clients)) != len(clients):
            raise RequestError(f"an erasure names a client twice: {clients}")

    def __str__(self) -> str:
        return "erase " + ", ".join(map(str, self.targets))


@dataclass(frozen=True)
class Join:
    """Let these clients take part from now on; before, they are not members."""

    clients: tuple[int, ...]
    at: Moment

    def __post_init__(self) -> None:
        if not self.clients or len(set(self.clients)) != len(self.clients):
            raise RequestError(f"a join names each client once, and at least one: {self.clients}")

    def __str__(self) -> str:
        return "join " + ", ".join(f"client {client}" for client in self.clients)


Request = Erase | Join


def erase(
    what: int | Iterable[int] | Mapping[int, Sequence[int] | None],
    *,
    round: int | None = None,
    time: float | None = None,
) -> Erase:
    """``erase(3, round=10)``, ``erase([3, 5], time=140)``, ``erase({3: [0, 1]}, round=10)``."""
    if isinstance(what, int):
        what = [what]
    if not isinstance(what, Mapping):
        what = dict.fromkeys(what)
    targets = tuple(
        Target(client, None if ids is None else tuple(ids)) for client, ids in sorted(what.items())
    )
    return Erase(targets, Moment(round, time))


def join(clients: int | Iterable[int], *, round: int | None = None, time: float | None = None) -> Join:
    """``join(7, round=20)``: client 7 takes no part before."""
    ids = (clients,) if isinstance(clients, int) else tuple(sorted(clients))
    return Join(ids, Moment(round, time))
