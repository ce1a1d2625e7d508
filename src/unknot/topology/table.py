"""A table of clients, `client,probability,expires`, as a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from unknot.core.errors import ConfigError
from unknot.topology.columns import from_file, number, parse_columns
from unknot.topology.probabilities import exact

COLUMNS = ("client", "probability", "expires")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Table:
    """Who may leave, how likely each is the next, and when each leaves."""

    names: dict[int, int | str]
    """What the table calls each client: the number itself, or a name; named clients count from 0."""
    probabilities: dict[int, Fraction] | None = None
    expires: dict[int, Fraction] | None = None

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(self.names)

    @property
    def total(self) -> Fraction:
        """What the probabilities add up to; they are scaled where it is not 1."""
        return Fraction(1) if self.probabilities is None else sum(self.probabilities.values(), Fraction(0))


def read_table(path: str | Path) -> Table:
    """The table in a CSV file with a header; probability and expires may be missing."""
    return from_file(path, parse)


def parse(lines: Iterable[str], where: str = "the table") -> Table:
    table = parse_columns(lines, where, ("client",), COLUMNS)
    probabilities = expires = None
    if "probability" in table.cells:
        probabilities = dict(zip(table.names, table.read("probability", _probability), strict=True))
    if "expires" in table.cells:
        moments = table.read("expires", _moment)
        if len({kind for kind, _ in moments}) > 1:
            raise ConfigError(f"{where}: expires has numbers and dates; use one of them throughout")
        expires = dict(zip(table.names, (moment for _, moment in moments), strict=True))
    return Table(table.names, probabilities, expires)


def _probability(text: str, place: str) -> Fraction:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the probability is {text!r}: it must be a finite number")
    if value < 0:
        raise ConfigError(f"{place}: the probability is {text}: it must not be negative")
    if value > 1:
        raise ConfigError(f"{place}: the probability is {text}: it must not be above 1")
    return exact(value, place)


def _moment(text: str, place: str) -> tuple[str, Fraction]:
    """A number, or an ISO date as seconds since 1970."""
    value = number(text)
    if value is not None and math.isfinite(value):
        return "number", exact(value, place)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{place}: expires is {text!r}: it must be a number or a date like 2027-01-31"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return "date", Fraction(since.days * 86400 + since.seconds) + Fraction(since.microseconds, 10**6)
