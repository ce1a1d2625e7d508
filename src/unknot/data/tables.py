"""Tables in files: CSV, or JSON with names and values in each line. What is wrong is said by its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from unknot.core.errors import DataError, nearest
from unknot.data.files import read_bytes, reading


@dataclass(frozen=True)
class Table:
    """Rows by the names of their columns, and what to call each: of a file, by the line that it ends in."""

    name: str
    rows: tuple[Mapping[str, Any], ...]
    places: tuple[str, ...]

    def where(self, row: int) -> str:
        return f"{self.name}, {self.places[row]}"

    def column(self, name: str) -> list[str]:
        """The cells of a column: texts, or whole numbers as texts."""
        cells = [row.get(name) for row in self.rows]
        for i, cell in enumerate(cells):
            if not isinstance(cell, (str, Integral)):
                raise DataError(
                    f"{self.where(i)}: expected a text or a whole number as {name!r}, found "
                    f"{'none' if cell is None else repr(cell)}.{nearest(name, self.rows[i])}"
                )
        return list(map(str, cells))


def read_table(path: Path) -> Table:
    """A `.csv` file whose first row names the columns, or a `.jsonl` file."""
    return table(read_bytes(path), str(path))


def table(raw: bytes, file: str) -> Table:
    """The table in a file's bytes; `file` is its name."""
    with reading(file):
        content = raw.decode("utf-8-sig")
    rows = (_json if file.endswith(".jsonl") else _csv)(content, file)
    if not rows:
        raise DataError(f"{file}: expected rows, below a first one that names the columns in a .csv file")
    return Table(file, tuple(rows.values()), tuple(f"line {line}" for line in rows))


def _csv(content: str, file: str) -> dict[int, dict[str, Any]]:
    csv.field_size_limit(2**31 - 1)  # a text may be longer than the 131,072 characters that are usual
    reader = csv.DictReader(io.StringIO(content, newline=""), restkey="", strict=True)
    try:
        names = reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        rows: dict[int, dict[str, Any]] = {}
        for row in reader:
            rows[reader.line_num] = row
    except csv.Error as error:
        raise DataError(
            f"{file}, line {reader.reader.line_num}: this is no row of a CSV file: {error}"
        ) from error
    if len({*names, ""}) <= len(names):
        raise DataError(f"{file}: each column needs a name of its own, found {', '.join(map(repr, names))}")
    for line, row in rows.items():
        if "" in row:
            raise DataError(f"{file}, line {line}: more cells than the {len(names)} columns that are named")
    return rows


def _json(content: str, file: str) -> dict[int, dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for line, text in enumerate(content.split("\n"), 1):
        if text.strip():
            with reading(f"{file}, line {line}"):
                rows[line] = dict(json.loads(text))
    return rows
