"""A CSV file with a header and a line for each client, as columns of texts: what every table begins with."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from unknot.core.errors import ConfigError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """The cells by column; `places` say where each line stands, for errors."""

    names: dict[int, int | str]
    """What the table calls each client: the number itself, or a name; named clients count from 0."""
    places: tuple[str, ...]
    cells: dict[str, list[str]]

    def read(self, column: str, value: Callable[[str, str], T]) -> list[T]:
        """A column's values, each read from its text and its place."""
        return [value(text, place) for text, place in zip(self.cells[column], self.places, strict=True)]


def from_file(path: str | Path, parse: Callable[[Iterable[str], str], T]) -> T:
    """What `parse` makes of a file's lines."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return parse(file, str(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}; name a CSV file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8: save it as a CSV file in that encoding") from None


def parse_columns(lines: Iterable[str], where: str, needed: Sequence[str], known: Sequence[str]) -> Columns:
    """Columns in any order; `needed` must be there, further ones may be if they are `known`."""
    reader = csv.reader(lines)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: {error}") from None
    rows = [(line, row) for line, row in rows if any(row)]
    begin = ",".join(known)
    if not rows:
        raise ConfigError(f"{where} is empty: it needs a header, {begin}, and a line for each client")
    header = _header(*rows[0], where, needed, known)
    if len(rows) == 1:
        raise ConfigError(f"{where} has a header and no clients")
    cells: dict[str, list[str]] = {name: [] for name in header}
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ConfigError(f"{where}, line {line}: {len(row)} cells, the header has {len(header)}")
        for name, cell in zip(header, row, strict=True):
            cells[name].append(cell)
    numbers = [line for line, _ in rows[1:]]
    places = tuple(f"{where}, line {line}" for line in numbers)
    return Columns(_names(cells["client"], numbers, where), places, cells)


def number(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _header(line: int, row: list[str], where: str, needed: Sequence[str], known: Sequence[str]) -> list[str]:
    header, begin = [name.lower() for name in row], ",".join(known)
    if not set(header) & set(known):
        raise ConfigError(f"{where}, line {line}: no header; begin with {begin}")
    for place, name in enumerate(header):
        if name not in known:
            raise ConfigError(f"{where}, line {line}: no column is called {name!r}.{nearest(name, known)}")
        if name in header[:place]:
            raise ConfigError(f"{where}, line {line}: the column {name!r} is there twice")
    for name in needed:
        if name not in header:
            raise ConfigError(f"{where}, line {line}: no column {name!r}; begin with {begin}")
    return header


def _names(texts: list[str], lines: list[int], where: str) -> dict[int, int | str]:
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
