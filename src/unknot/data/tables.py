"""Columns of text, from a CSV file or from JSON a line; what is wrong is said by its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unknot.core.errors import DataError, nearest
from unknot.data.files import read_bytes

ENDINGS = (".csv", ".jsonl")


@dataclass(frozen=True)
class Columns:
    """The cells of the columns that were asked for, row by row, and the line that each row begins in."""

    file: str
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def where(self, row: int) -> str:
        return f"{self.file}, line {self.lines[row]}"


def read_columns(path: Path, wanted: Sequence[str]) -> Columns:
    """These columns of a `.csv` file whose first row names them, or these keys of a `.jsonl` file's lines."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path}: expected a table of texts, {' or '.join(ENDINGS)}; found {path.suffix!r}")
    if not path.exists():
        raise DataError(f"{path.absolute()}: expected a table of texts, found nothing; is the path right?")
    content = decoded(read_bytes(path), str(path))
    return (csv_columns if ending == ".csv" else json_columns)(content, str(path), wanted)


def decoded(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = error.start - raw.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{file}, line {line}: its byte {byte} is none of a text in UTF-8. Save the file as UTF-8"
        ) from error


@contextmanager
def _of_any_length() -> Iterator[None]:
    """Python's reader takes cells of 131,072 characters, where nothing else is said; a text may be longer."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


@_of_any_length()
def csv_columns(content: str, file: str, wanted: Sequence[str]) -> Columns:
    names, rows = _table(content, file)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(f"{file}: two columns are called {name!r}; each needs a name of its own")
    places = [_place(name, names, file) for name in wanted]
    cells, lines = [], []
    for line, row in rows:
        if len(row) != len(names):
            raise DataError(f"{file}, line {line}: {len(row)} cells, but {len(names)} columns are named")
        cells.append(tuple(row[place] for place in places))
        lines.append(line)
    return _some(Columns(file, tuple(cells), tuple(lines)))


def _table(content: str, file: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise DataError(f"{file}, line {line}: this is no row of a CSV file: {error}") from error
            if row is None:
                return
            if row:
                yield line, row

    found = rows()
    _, names = next(found, (0, []))
    if not names:
        raise DataError(f"{file}: expected a row that names the columns, then texts; it is empty")
    return [name.strip() for name in names], found


def _place(name: str, names: Sequence[str], file: str) -> int:
    if name not in names:
        for separator, called in ((";", "';'"), ("\t", "a tab")):
            if len(names) == 1 and separator in names[0]:
                raise DataError(
                    f"{file}: its columns are separated by {called}, and columns are read that are separated "
                    "by ',': save it so"
                )
        raise DataError(f"{file}: there is no column {name!r}.{nearest(name, names)}")
    return names.index(name)


def json_columns(content: str, file: str, wanted: Sequence[str]) -> Columns:
    rows, lines = [], []
    for line, text in enumerate(content.split("\n"), 1):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except ValueError as error:
            raise DataError(f"{file}, line {line}: this is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise DataError(f"{file}, line {line}: expected names with values in {{}}, found {text[:40]!r}")
        rows.append(tuple(_cell(found, name, f"{file}, line {line}") for name in wanted))
        lines.append(line)
    return _some(Columns(file, tuple(rows), tuple(lines)))


def _cell(found: dict[str, object], name: str, where: str) -> str:
    if name not in found:
        raise DataError(f"{where}: there is no {name!r}.{nearest(name, found)}")
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{where}: {name!r} must be a text or a whole number, not {json.dumps(value)[:40]}")
    return str(value)


def _some(columns: Columns) -> Columns:
    if not columns.rows:
        raise DataError(f"{columns.file}: expected a text a row, found none")
    return columns
