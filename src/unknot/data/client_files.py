"""A folder with one file per client: arrays in `.npz`, tables in `.csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import FederatedData
from unknot.core.errors import ConfigError, DataError, nearest
from unknot.data.files import read_npz
from unknot.data.own import clients
from unknot.data.tables import Table, read_table


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
    theirs, servers = _files(place, test, validation, public)
    tables = {file: read_table(file) for file in [*theirs, *servers.values()] if _is_table(file)}
    wanted = _listed(target)
    if tables and not wanted:
        there = ", ".join(next(iter(tables.values())).rows[0])
        raise ConfigError(
            f'data.target is missing: which column is to be predicted ({there})? Write target = "..." in '
            "[data], or target=... in Python"
        )
    if (wanted or columns) and not tables:
        raise ConfigError("target and columns are for .csv files, and there are none; leave them out")
    order = tuple(columns or (_inputs(next(iter(tables.values())), wanted) if tables else ()))
    nobodys = servers.pop("public", None)
    targets = [tables[file].column(name) for file in tables if file != nobodys for name in wanted]
    whole = all(cell.strip().lstrip("+-").isdecimal() for cells in targets for cell in cells)

    def x(file: Path) -> NDArray[Any]:
        if file not in tables:
            return read_npz(file, ("x",))["x"]
        if sorted(order) != sorted(_inputs(tables[file], wanted)):
            found = ", ".join(_inputs(tables[file], wanted))
            raise DataError(
                f"{file}: expected the inputs {', '.join(order)} as in other files; found {found}"
            )
        return _numbers(tables[file], order)

    def pair(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        if file not in tables:
            return x(file), read_npz(file, ("y",))["y"]
        y = _numbers(tables[file], wanted).astype(np.int64 if whole else np.float64)
        return x(file), y[:, 0] if len(wanted) == 1 else y

    return clients(
        {file.stem: pair(file) for file in sorted(theirs, key=lambda file: file.stem)},
        test=pair(servers["test"]) if "test" in servers else None,
        validation=pair(servers["validation"]) if "validation" in servers else None,
        public=None if nobodys is None else x(nobodys),
        classes=classes,
        kind=kind,
        tokens=tokens,
        ids=ids,
        name=place.name or "folder",
    )


def columns_of(path: str | Path, target: str | Sequence[str], **servers: str | None) -> tuple[str, ...]:
    """The order of inputs in such a folder where none is given: that of the first table."""
    theirs, others = _files(Path(path), **servers)
    first = next(file for file in [*theirs, *others.values()] if _is_table(file))
    return _inputs(read_table(first), _listed(target))


def _files(
    place: Path, test: str | None = None, validation: str | None = None, public: str | None = None
) -> tuple[list[Path], dict[str, Path]]:
    """The files of clients, and those of the server by what they are for."""
    if not place.is_dir():
        raise DataError(f"{place.absolute()}: expected a folder with one file per client")
    files = {file.name: file for file in sorted(place.iterdir()) if file.is_file() and file.name[0] != "."}
    stems: dict[str, Path] = {}
    for file in files.values():
        if file.suffix.lower() not in (".npz", ".csv"):
            raise DataError(f"{file}: expected .npz or .csv; move what is no client's data out of the folder")
        if (twin := stems.setdefault(file.stem.lower(), file)) is not file:
            raise DataError(f"{place}: {twin.name} and {file.name} have the same name; leave one of them")
    servers: dict[str, Path] = {}
    for part, name in {"test": test, "validation": validation, "public": public}.items():
        if name is not None and name not in files:
            raise DataError(f"{place}: there is no file {name!r} for {part} data.{nearest(name, files)}")
        found = files[name] if name else None if part == "public" else stems.get(part)
        if found is not None and found in servers.values():
            raise DataError(
                f"{place}: {found.name} is for two things, one of them {part} data: what a model is measured "
                f"by is for nothing else. Name a file of its own, {part} = ..."
            )
        servers |= {part: found} if found else {}
    theirs = [file for file in files.values() if file not in servers.values()]
    if not theirs:
        raise DataError(f"{place}: expected one file per client, .npz or .csv; found none")
    return theirs, servers


def _is_table(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def _listed(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _inputs(table: Table, target: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that are no target."""
    found = tuple(name for name in table.rows[0] if name not in target)
    if not found:
        raise DataError(f"{table.name}: there is no column beside the target to predict it from")
    return found


def _numbers(table: Table, names: Sequence[str]) -> NDArray[np.float64]:
    """These columns; a cell that is no finite number is refused by line and column."""
    found = np.empty((len(table.rows), len(names)))
    for j, name in enumerate(names):
        for i, cell in enumerate(table.column(name)):
            try:
                found[i, j] = float(cell)
            except ValueError:
                found[i, j] = np.nan
            if not np.isfinite(found[i, j]):
                raise DataError(
                    f"{table.where(i)}, column {name!r}: {cell!r} is no finite number. Encode categories as "
                    "numbers (a column of 0 and 1 for each, say), and fill gaps or leave those rows out"
                )
    return found
