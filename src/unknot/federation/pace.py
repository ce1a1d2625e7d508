"""How long the server waits: for all clients, or for the first few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from unknot.core.errors import ConfigError


class InFlight(Protocol):
    @property
    def due(self) -> int: ...

    @property
    def version(self) -> int: ...


class Pace(Protocol):
    """Decides how many clients to send out, and when to aggregate those that came back."""

    def vacancies(self, in_flight: int, members: int) -> int:
        """How many more clients to send the model to now."""
        ...

    def ready(self, flights: Sequence[InFlight], version: int) -> int:
        """When to aggregate: everything due by then is taken. `flights` is not empty."""
        ...

    def share(self, parts: int) -> Pace:
        """The pace of one of so many equal parts of the federation."""
        ...


@dataclass(frozen=True)
class Synchronous:
    """Send to some clients, wait for every one, aggregate."""

    per_round: int | None = None
    """How many clients are asked a round; left out: all."""

    def __post_init__(self) -> None:
        if self.per_round is not None and self.per_round < 1:
            raise ConfigError(f"per_round must be at least 1, not {self.per_round}")

    def vacancies(self, in_flight: int, members: int) -> int:
        if in_flight:
            return 0
        return members if self.per_round is None else self.per_round

    def ready(self, flights: Sequence[InFlight], version: int) -> int:
        return max(flight.due for flight in flights)

    def share(self, parts: int) -> Synchronous:
        return self if self.per_round is None else Synchronous(-(-self.per_round // parts))


@dataclass(frozen=True)
class Buffered:
    """Keep some clients in flight; aggregate as soon as the first few have reported."""

    per_round: int
    """How many clients are at work at any time."""
    minimum: int
    """The server aggregates as soon as so many have reported; at most `per_round`."""
    staleness_bound: int | None = None
    """No update is older than so many versions: who is about to exceed it is waited for; left out: any."""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.per_round:
            raise ConfigError(
                f"minimum of a buffered pace: 1 <= minimum <= per_round, not minimum = {self.minimum} "
                f"and per_round = {self.per_round}"
            )
        if self.staleness_bound is not None and self.staleness_bound < 0:
            raise ConfigError(f"staleness_bound must not be negative, not {self.staleness_bound}")

    def vacancies(self, in_flight: int, members: int) -> int:
        return self.per_round - in_flight

    def ready(self, flights: Sequence[InFlight], version: int) -> int:
        arrivals = sorted(flight.due for flight in flights)
        at = arrivals[min(self.minimum, len(arrivals)) - 1]
        if self.staleness_bound is not None:
            overdue = [f.due for f in flights if version - f.version >= self.staleness_bound]
            at = max([at, *overdue])
        return at

    def share(self, parts: int) -> Buffered:
        """Rounded up, so that nothing is 0."""
        return replace(self, per_round=-(-self.per_round // parts), minimum=-(-self.minimum // parts))


def by_members(pace: Pace, members: Sequence[int]) -> list[Pace]:
    """The paces of parts with so many members each: as many clients at a time in all, whoever is where.

    Seats go by members, rounded down; what is left over to the largest remainders. A part with members has
    one at least, taken from the part that has most.
    """
    if not isinstance(pace, Synchronous | Buffered):
        raise ConfigError(f"a {type(pace).__name__} pace has no seats to deal out by members")
    if pace.per_round is None or not any(members):
        return [pace] * len(members)
    exact = [Fraction(pace.per_round * count, sum(members)) for count in members]
    seats = [int(part) for part in exact]
    rest = sorted(range(len(members)), key=lambda i: (seats[i] - exact[i], i))
    for i in rest[: pace.per_round - sum(seats)]:
        seats[i] += 1
    for i, count in enumerate(members):
        if count and not seats[i]:
            most = max(range(len(seats)), key=lambda j: seats[j])
            seats[most], seats[i] = max(1, seats[most] - 1), 1
    return [_of(pace, max(1, mine)) for mine in seats]


def _of(pace: Synchronous | Buffered, seats: int) -> Pace:
    """So many seats; of a buffered pace, the server waits for as great a part of them as before."""
    if isinstance(pace, Synchronous):
        return Synchronous(seats)
    return replace(pace, per_round=seats, minimum=-(-pace.minimum * seats // pace.per_round))
