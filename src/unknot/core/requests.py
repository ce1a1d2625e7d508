"""Requests to a federation: to be forgotten, or to join; at a round or at a time.

What names clients, samples and moments is read here, once: whatever comes in (NumPy's numbers,
arrays, sets, what a TOML file says), plain whole numbers go on, or the request is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
from torch import Tensor

from unknot.core.errors import RequestError
from unknot.core.ids import Id, client_id, client_ids, sample_ids, whole_number


@dataclass(frozen=True)
class Target:
    """A client to be erased whole, or the samples of it that are (their ids, ascending)."""

    client: int
    samples: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", client_id(self.client))
        if self.samples is not None:
            object.__setattr__(self, "samples", sample_ids(self.samples, self.client))

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
        if self.time is None:
            object.__setattr__(self, "round", whole_number(self.round, "the round of a request"))
        else:
            object.__setattr__(self, "time", _seconds(self.time))

    def __str__(self) -> str:
        return f"round {self.round}" if self.time is None else f"{self.time:g} s"


@dataclass(frozen=True)
class Erase:
    """Forget these clients or samples, all in one go."""

    targets: tuple[Target, ...]
    at: Moment

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        for target in self.targets:
            if not isinstance(target, Target):
                raise RequestError(f"an erasure is made of targets, not of {target!r}; see unknot.erase")
        _check_at(self.at)
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
        object.__setattr__(self, "clients", client_ids(self.clients))
        if not self.clients:
            raise RequestError("a join names at least one client")
        _check_at(self.at)

    def __str__(self) -> str:
        return "join " + ", ".join(f"client {client}" for client in self.clients)


Request = Erase | Join


def erase(
    what: Id | Iterable[Id] | Mapping[Id, Iterable[Id] | None],
    *,
    round: Id | None = None,
    time: float | None = None,
) -> Erase:
    """``erase(3, round=10)``, ``erase([3, 5], time=140)``, ``erase({3: [0, 1]}, round=10)``."""
    if isinstance(what, Mapping):
        targets = [Target(client, ids) for client, ids in what.items()]  # type: ignore[arg-type]
    else:
        targets = [Target(client) for client in client_ids(what)]
    return Erase(tuple(sorted(targets, key=lambda target: target.client)), _moment(round, time))


def join(clients: Id | Iterable[Id], *, round: Id | None = None, time: float | None = None) -> Join:
    """``join(7, round=20)``: client 7 takes no part before."""
    return Join(client_ids(clients), _moment(round, time))


def _check_at(at: object) -> None:
    if not isinstance(at, Moment):
        raise RequestError(f"a request comes at a Moment, not at {at!r}")


def _moment(round: Id | None, time: float | None) -> Moment:
    return Moment(round, time)  # type: ignore[arg-type]  # it makes the round a whole number


def _seconds(value: object) -> float:
    """A time as a plain number: 0 or more, and one that comes."""
    found = value.item() if isinstance(value, np.ndarray | Tensor) and value.ndim == 0 else value
    if isinstance(found, Real) and not isinstance(found, bool):
        try:
            seconds = float(found)
        except OverflowError:
            seconds = math.inf
        if seconds >= 0 and math.isfinite(seconds):
            return seconds
    raise RequestError(f"the time of a request must be a finite number of seconds, 0 or more, not {value!r}")
