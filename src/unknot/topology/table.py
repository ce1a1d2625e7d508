"""Tables of clients as CSV files: of who may leave for trees, of times and disparities for clusters."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from unknot.core.errors import ConfigError, nearest
from unknot.topology.probabilities import exact

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


@dataclass(frozen=True)
class Profiles:
    """How long each client trains, and how far its update is from the others', in the table's order."""

    names: tuple[int | str, ...]
    times: tuple[float, ...]
    disparities: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.names)


def read_table(path: str | Path) -> Table:
    """The table in a CSV file with a header; probability and expires may be missing."""
    return parse(_lines(path), str(path))


def read_profiles(path: str | Path) -> Profiles:
    """The table in a CSV file with a header, columns in any order."""
    return parse_profiles(_lines(path), str(path))


def parse(lines: Iterable[str], where: str = "the table") -> Table:
    columns, places = _columns(lines, where, ("client",), ("client", "probability", "expires"))
    names = _names(columns["client"], places)
    probabilities = expires = None
    if "probability" in columns:
        chances = _numbers(columns, places, "probability", 1.0)
        probabilities = {client: exact(chance, where) for client, chance in zip(names, chances, strict=True)}
    if "expires" in columns:
        moments = [_moment(*cell) for cell in zip(columns["expires"], places, strict=True)]
        if len({kind for kind, _ in moments}) > 1:
            raise ConfigError(f"{where}: expires has numbers and dates; use one of them throughout")
        expires = dict(zip(names, (moment for _, moment in moments), strict=True))
    return Table(names, probabilities, expires)


def parse_profiles(lines: Iterable[str], where: str = "the table") -> Profiles:
    known = ("client", "time", "disparity")
    columns, places = _columns(lines, where, known, known)
    names = _names(columns["client"], places)
    times = _numbers(columns, places, "time", math.inf)
    return Profiles(tuple(names.values()), times, _numbers(columns, places, "disparity", 1.0))


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8-sig").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path} as a CSV file in UTF-8: {error}") from None


def _columns(
    lines: Iterable[str], where: str, needed: Sequence[str], known: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The cells by column, and where each line stands, for errors."""
    reader = csv.DictReader(lines, restkey="", restval="")
    header = reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    rows = [(f"{where}, line {reader.line_num}", row) for row in reader]
    odd = [name for name in header if name not in known or header.count(name) > 1]
    if odd or set(needed) - set(header) or not rows:
        raise ConfigError(
            f"{where}: expected a header of {','.join(known)} and a line for each client, found "
            f"{','.join(header) or 'nothing'} and {len(rows)} lines.{nearest(odd[0], known) if odd else ''}"
        )
    for place, row in rows:
        if "" in row:
            raise ConfigError(f"{place}: more cells than the {len(header)} of the header")
    return {name: [row[name].strip() for _, row in rows] for name in header}, [place for place, _ in rows]


def _names(texts: Sequence[str], places: Sequence[str]) -> dict[int, int | str]:
    """Whole numbers throughout are the clients' ids; otherwise all are names."""
    numbers = all(re.fullmatch(r"-?[0-9]{1,18}", text) for text in texts)
    first: dict[int | str, str] = {}
    for text, place in zip(texts, places, strict=True):
        name = int(text) if numbers else text
        if not text:
            raise ConfigError(f"{place}: the client has no name")
        if first.setdefault(name, place) != place:
            raise ConfigError(f"{place}: client {name} is there already, in {first[name]}")
    return {name if isinstance(name, int) else i: name for i, name in enumerate(first)}


def _numbers(
    columns: dict[str, list[str]], places: Sequence[str], name: str, most: float
) -> tuple[float, ...]:
    return tuple(_number(text, place, name, most) for text, place in zip(columns[name], places, strict=True))


def _number(text: str, place: str, name: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most or math.isinf(value):
        told = "0 or more, and finite" if math.isinf(most) else f"in 0..{most:g}"
        raise ConfigError(f"{place}: the {name} is {text!r}: it must be a number, {told}")
    return value


def _moment(text: str, place: str) -> tuple[str, Fraction]:
    """A number, or an ISO date as seconds since 1970."""
    try:
        return "number", exact(float(text), place)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{place}: expires is {text!r}: it must be a number or a date like 2027-01-31"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return "date", Fraction((moment - _EPOCH) // timedelta(microseconds=1), 10**6)
