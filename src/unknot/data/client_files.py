"""A folder with a file a client: arrays in `.npz`, tables in `.csv`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import FederatedData, is_name
from unknot.core.errors import ConfigError, DataError, nearest
from unknot.data.files import read_npz, unreadable
from unknot.data.own import clients

ENDINGS = (".npz", ".csv")
SEPARATORS = (";", "\t", "|")
"""What other programs put between cells."""
Pair = tuple[NDArray[Any], NDArray[Any]]


def folder(
    path: str | Path,
    *,
    target: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    test: str | None = None,
    validation: str | None = None,
    public: str | None = None,
    classes: int | None = None,
    kind: str | None = None,
    tokens: bool | None = None,
    ids: Mapping[str, int] | None = None,
) -> FederatedData:
    """Data of your own, in a folder: each file is a client, and is called what the file is.

    An `.npz` file has the arrays x and y; a `.csv` file has a first row that names its columns, and numbers
    below it. Clients are numbered in the alphabetical order of their names.

    `path`: the folder, from the working directory unless it is absolute. `target`: the column of `.csv` files
    that is to be predicted, or several; the others are inputs. `columns`: the inputs of `.csv` files, in
    their order; left out: as in the first client's file. `test`: the server's file to test with; left out:
    the one of that name (`Test.csv`, too), if there is one. `validation`: the server's file to measure with;
    left out: likewise. `public`: the server's file of inputs that are nobody's, which need no targets
    (distillation); left out: none. `classes`: how many there are; left out: as the greatest label says.
    `kind`: what targets are, "classes", "labels" or "values"; left out: what they look like. `tokens`:
    whether inputs are numbers of tokens. `ids`: which number each name has, where draws are to stay when
    clients are left out.
    """
    place = Path(path)
    if not place.is_dir():
        found = "a file" if place.exists() else "nothing"
        raise DataError(f"{place.absolute()}: expected a folder with a file a client, found {found}")
    theirs, servers = _sorted_out(place, test, validation, public)
    nobodys = servers.pop("public")
    if not theirs:
        raise DataError(f"{place}: expected a file a client, {' or '.join(ENDINGS)}; found none")
    names: dict[str, Path] = {}
    for file in theirs:
        if not is_name(file.stem):
            raise DataError(
                f"{str(file)!r}: a client is called as its file is, and a name is one line that neither "
                f"begins nor ends with a space, unlike {file.stem!r}: rename the file"
            )
        if file.stem in names:
            twins = f"{names[file.stem].name} and {file.name}"
            raise DataError(f"{place}: {twins} are of one client, {file.stem!r}; leave one of them")
        names[file.stem] = file
    wanted, order = _listed(target), _listed(columns)
    tables = _tables([*theirs, *filter(None, servers.values())], wanted, order)
    return clients(
        {name: tables[file] for name, file in sorted(names.items())},
        test=None if servers["test"] is None else tables[servers["test"]],
        validation=None if servers["validation"] is None else tables[servers["validation"]],
        public=None if nobodys is None else _inputs(nobodys, theirs, wanted or (), order),
        classes=classes,
        kind=kind,
        tokens=tokens,
        ids=ids,
        name=place.name or "folder",
    )


def _counts(file: Path) -> bool:
    """Whether a file is data; one that is not of a known ending is refused rather than left out."""
    if file.name.startswith(".") or file.is_dir():
        return False
    if file.suffix.lower() not in ENDINGS:
        raise DataError(
            f"{file}: expected {' or '.join(ENDINGS)}; move what is no client's data out of the folder"
        )
    if file.exists() and not file.is_file():
        raise DataError(f"{file}: expected a file, found a pipe or a device; move it out of the folder")
    return True


def _servers(files: Mapping[str, Path], place: Path, part: str, named: str | None) -> Path | None:
    """The server's own file for a part: the one that is named, or that is called so."""
    if named is not None:
        if named not in files:
            raise DataError(f"{place}: there is no file {named!r} for {part} data.{nearest(named, files)}")
        return files[named]
    found = [file for file in files.values() if file.stem.lower() == part]
    if len(found) > 1:
        raise DataError(f"{place}: both {found[0].name} and {found[1].name}: say which, {part} = ...")
    return found[0] if found else None


def _check_apart(servers: Mapping[str, Path | None], place: Path) -> None:
    """A file is for one thing: what is tested on must be neither learned from nor watched on the way."""
    parts: dict[Path, str] = {}
    for part, file in servers.items():
        if file is None:
            continue
        if file in parts:
            raise DataError(
                f"{place}: {file.name} is the file for {parts[file]} data and for {part} data, too: what a "
                f"model is measured by is for nothing else. Name a file of its own, {part} = ..."
            )
        parts[file] = part


def columns_of(
    path: str | Path,
    target: str | Sequence[str],
    test: str | None = None,
    validation: str | None = None,
    public: str | None = None,
) -> tuple[str, ...]:
    """The order of inputs in such a folder where none is given: that of the first table."""
    theirs, servers = _sorted_out(Path(path), test, validation, public)
    del servers["public"]
    tables = [file for file in (*theirs, *servers.values()) if file and file.suffix.lower() == ".csv"]
    return _Table.read(tables[0]).inputs(_listed(target) or ())


def _sorted_out(
    place: Path, test: str | None, validation: str | None, public: str | None
) -> tuple[list[Path], dict[str, Path | None]]:
    """The files of clients, and those of the server by what they are for."""
    files = {file.name: file for file in sorted(place.iterdir()) if _counts(file)}
    servers = {
        "test": _servers(files, place, "test", test),
        "validation": _servers(files, place, "validation", validation),
        "public": None if public is None else _servers(files, place, "public", public),
    }
    _check_apart(servers, place)
    return [file for file in files.values() if file not in servers.values()], servers


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return (names,) if isinstance(names, str) else None if names is None else tuple(names)


def _tables(
    files: Sequence[Path], target: tuple[str, ...] | None, columns: tuple[str, ...] | None
) -> dict[Path, Pair]:
    """Inputs and targets of every file; the columns of tables in one order, their targets of one type."""
    tables = {file: _Table.read(file) for file in files if file.suffix.lower() == ".csv"}
    if tables and target is None:
        file = next(iter(tables))
        there = ", ".join(tables[file].columns)
        raise ConfigError(
            f"data.target is missing: which column of {file.name} is to be predicted ({there})? "
            'Write target = "..." in [data], or target=... in Python'
        )
    if target is not None and not tables:
        raise ConfigError("target names a column of .csv files, and there are none; leave it out")
    if columns is not None and (not tables or len(set(columns)) < len(columns)):
        told = "names one twice" if tables else "are of .csv files, and there are none"
        raise ConfigError(f"columns {told}: name each input of the tables once, or leave columns out")
    found: dict[Path, Pair] = {}
    for file in files:
        if file not in tables:
            arrays = read_npz(file, ("x", "y"))
            found[file] = arrays["x"], arrays["y"]
    if tables and target is not None:
        order = next(iter(tables.values())).inputs(target) if columns is None else columns
        whole = all(table.whole(target) for table in tables.values())
        for file, table in tables.items():
            x, y = table.numbers(order, target), table.targets(target)
            found[file] = x, y.astype(np.int64) if whole else y
    return found


def _inputs(
    file: Path, others: Sequence[Path], target: tuple[str, ...], columns: tuple[str, ...] | None
) -> NDArray[Any]:
    """What a file has that needs no targets; the columns of a table in the order of the others."""
    if file.suffix.lower() != ".csv":
        return read_npz(file, ("x",))["x"]
    table = _Table.read(file)
    like = next((_Table.read(other) for other in others if other.suffix.lower() == ".csv"), None)
    order = tuple(name for name in table.columns if name not in target)
    return table.numbers(columns or (order if like is None else like.inputs(target)), target)


@dataclass(frozen=True)
class _Table:
    """A table as it was written: its columns, and its cells row by row with the line each is in."""

    file: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    @staticmethod
    def read(file: Path) -> _Table:
        try:
            with file.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream)
                numbered = [(reader.line_num, tuple(cell.strip() for cell in row)) for row in reader if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise unreadable(file, error) from error
        if not numbered:
            raise DataError(f"{file}: expected a row that names the columns, then numbers; it is empty")
        (_, columns), *rest = numbered
        if len(columns) == 1 and (signs := [sign for sign in SEPARATORS if sign in columns[0]]):
            raise DataError(
                f"{file}: found one column, {columns[0]!r}; is the separator {signs[0]!r}? Cells are "
                "separated by commas here: save the table so (and numbers with decimal points)"
            )
        if all(_number(cell) is not None for cell in columns):
            raise DataError(f"{file}: the first row must name the columns, found {', '.join(columns[:4])}")
        for i, name in enumerate(columns):
            if not name or name in columns[:i]:
                told = f"is called {name!r}, as another one is" if name else "has no name"
                raise DataError(f"{file}: column {i + 1} {told}; each needs a name of its own")
        for line, row in rest:
            if len(row) != len(columns):
                raise DataError(
                    f"{file}, line {line}: {len(row)} cells, but {len(columns)} columns are named"
                )
        if not rest:
            raise DataError(f"{file}: expected rows of numbers below the names of the columns, found none")
        return _Table(file, columns, tuple(row for _, row in rest), tuple(line for line, _ in rest))

    def inputs(self, target: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that are no target."""
        self._check(target)
        found = tuple(name for name in self.columns if name not in target)
        if not found:
            raise DataError(f"{self.file}: there is no column beside the target to predict it from")
        return found

    def whole(self, target: tuple[str, ...]) -> bool:
        """Whether all targets are written as whole numbers."""
        self._check(target)
        places = [self.columns.index(name) for name in target]
        return all(row[i].lstrip("+-").isdecimal() for row in self.rows for i in places)

    def targets(self, target: tuple[str, ...]) -> NDArray[np.float64]:
        found = self.numbers(target, target)
        return found[:, 0] if len(target) == 1 else found

    def numbers(self, wanted: tuple[str, ...], target: tuple[str, ...]) -> NDArray[np.float64]:
        """These columns; a cell that is no finite number is refused by line and column."""
        mine = set(self.columns) - set(target)
        if wanted != target and mine != set(wanted):
            odd = sorted(mine ^ set(wanted))[0]
            told = "is missing" if odd in wanted else "is in no other file"
            raise DataError(f"{self.file}: column {odd!r} {told}; all files must have the same columns")
        places = [self.columns.index(name) for name in wanted]
        found = [[_number(row[place]) for place in places] for row in self.rows]
        for line, row, values in zip(self.lines, self.rows, found, strict=True):
            if None in values:
                place = places[values.index(None)]
                told = f"{row[place]!r} is no finite number" if row[place] else "the cell is empty"
                raise DataError(
                    f"{self.file}, line {line}, column {self.columns[place]!r}: {told}. Encode categories "
                    "as numbers (a column of 0 and 1 for each, say), and fill gaps or leave those rows out"
                )
        return np.asarray(found, dtype=np.float64)

    def _check(self, target: tuple[str, ...]) -> None:
        for name in target:
            if name not in self.columns:
                hint = nearest(name, self.columns)
                raise DataError(f"{self.file}: there is no column {name!r} to predict.{hint}")


def _number(cell: str) -> float | None:
    """What a cell says, if it is a finite number."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
