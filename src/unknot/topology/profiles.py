"""A table of clients, `client,time,disparity`, as a CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unknot.core.errors import ConfigError, nearest
from unknot.topology.table import names_of, number

COLUMNS = ("client", "time", "disparity")


@dataclass(frozen=True)
class Profiles:
    """How long each client trains, and how far its update is from the others', in the table's order."""

    names: tuple[int | str, ...]
    times: tuple[float, ...]
    disparities: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.names)


def read_profiles(path: str | Path) -> Profiles:
    """The table in a CSV file with a header, columns in any order."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return parse_profiles(file, str(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8: a table is a CSV file") from None


def parse_profiles(lines: Iterable[str], where: str = "the table") -> Profiles:
    reader = csv.reader(lines)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: {error}") from None
    rows = [(line, row) for line, row in rows if any(row)]
    if not rows:
        raise ConfigError(
            f"{where} is empty: it needs a header, {','.join(COLUMNS)}, and a line for each client"
        )
    header = _header(*rows[0], where)
    if len(rows) == 1:
        raise ConfigError(f"{where} has a header and no clients")
    cells: dict[str, list[str]] = {name: [] for name in header}
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ConfigError(f"{where}, line {line}: {len(row)} cells, the header has {len(header)}")
        for name, cell in zip(header, row, strict=True):
            cells[name].append(cell)
    numbers = [line for line, _ in rows[1:]]
    names = names_of(cells["client"], numbers, where)
    places = [f"{where}, line {line}" for line in numbers]
    return Profiles(
        tuple(names.values()),
        tuple(_time(text, place) for text, place in zip(cells["time"], places, strict=True)),
        tuple(_disparity(text, place) for text, place in zip(cells["disparity"], places, strict=True)),
    )


def _header(line: int, row: list[str], where: str) -> list[str]:
    header = [name.lower() for name in row]
    if not set(header) & set(COLUMNS):
        raise ConfigError(f"{where}, line {line}: no header; begin with {','.join(COLUMNS)}")
    for place, name in enumerate(header):
        if name not in COLUMNS:
            raise ConfigError(f"{where}, line {line}: no column is called {name!r}.{nearest(name, COLUMNS)}")
        if name in header[:place]:
            raise ConfigError(f"{where}, line {line}: the column {name!r} is there twice")
    for name in COLUMNS:
        if name not in header:
            raise ConfigError(f"{where}, line {line}: no column {name!r}; begin with {','.join(COLUMNS)}")
    return header


def _time(text: str, place: str) -> float:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the time is {text!r}: it must be a finite number")
    if value < 0:
        raise ConfigError(f"{place}: the time is {text}: it must not be negative")
    return value


def _disparity(text: str, place: str) -> float:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the disparity is {text!r}: it must be a number in 0..1")
    if not 0 <= value <= 1:
        raise ConfigError(f"{place}: the disparity is {text}: it must lie in 0..1")
    return value
