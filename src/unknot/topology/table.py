"""A table of clients, `client,probability,expires`, as a CSV file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from unknot.core.errors import ConfigError, nearest
from unknot.topology.weights import exact

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
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return parse(file, str(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8: a table is a CSV file") from None


def parse(lines: Iterable[str], where: str = "the table") -> Table:
    reader = csv.reader(lines)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: {error}") from None
    rows = [(line, row) for line, row in rows if any(row)]
    if not rows:
        raise ConfigError(
            f"{where} is empty: it needs a header, client,probability, and a line for each client"
        )
    header = _header(*rows[0], where)
    if len(rows) == 1:
        raise ConfigError(f"{where} has a header and no clients")
    texts: list[str] = []
    lines_of: list[int] = []
    columns: dict[str, list[str]] = {name: [] for name in header}
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ConfigError(f"{where}, line {line}: {len(row)} cells, the header has {len(header)}")
        for name, cell in zip(header, row, strict=True):
            columns[name].append(cell)
        lines_of.append(line)
    texts = columns["client"]
    names = names_of(texts, lines_of, where)
    places = [(client, f"{where}, line {line}") for client, line in zip(names, lines_of, strict=True)]
    probabilities = expires = None
    if "probability" in columns:
        cells = zip(places, columns["probability"], strict=True)
        probabilities = {client: _probability(text, place) for (client, place), text in cells}
    if "expires" in columns:
        cells = zip(places, columns["expires"], strict=True)
        expires = {client: _moment(text, place) for (client, place), text in cells}
        if len({kind for kind, _ in expires.values()}) > 1:
            raise ConfigError(f"{where}: expires has numbers and dates; use one of them throughout")
    return Table(names, probabilities, None if expires is None else {c: m for c, (_, m) in expires.items()})


def _header(line: int, row: list[str], where: str) -> list[str]:
    header = [name.lower() for name in row]
    if "client" not in header:
        raise ConfigError(
            f"{where}, line {line}: no header with a column 'client'; begin with client,probability"
        )
    for place, name in enumerate(header):
        if name not in COLUMNS:
            raise ConfigError(f"{where}, line {line}: no column is called {name!r}.{nearest(name, COLUMNS)}")
        if name in header[:place]:
            raise ConfigError(f"{where}, line {line}: the column {name!r} is there twice")
    return header


def names_of(texts: list[str], lines: list[int], where: str) -> dict[int, int | str]:
    """Whole numbers throughout are the clients' ids; otherwise all are names."""
    numbers = all(re.fullmatch(r"-?[0-9]{1,18}", text) for text in texts)
    first: dict[int | str, int] = {}
    for text, line in zip(texts, lines, strict=True):
        name = int(text) if numbers else text
        if not text:
            raise ConfigError(f"{where}, line {line}: the client has no name")
        if name in first:
            raise ConfigError(f"{where}, line {line}: client {name} is there already, in line {first[name]}")
        first[name] = line
    return {name if isinstance(name, int) else place: name for place, name in enumerate(first)}


def _probability(text: str, place: str) -> Fraction:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the probability is {text!r}: it must be a finite number")
    if value < 0:
        raise ConfigError(f"{place}: the probability is {text}: it must not be negative")
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


def number(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
