"""Load a data set by name; say which are there; check that their files are the right ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unknot.core.errors import ConfigError, DataError
from unknot.core.places import VARIABLE, Root, folders
from unknot.core.registry import datasets
from unknot.data.dataset import Dataset
from unknot.data.files import File, checksum
from unknot.data.sources import Source, source_of

Status = Literal["ok", "differs", "missing", "unreadable", "unknown"]


@dataclass(frozen=True)
class Entry:
    """A data set as the catalogue shows it."""

    name: str
    description: str
    present: bool
    where: tuple[str, ...]
    how: str
    natural_clients: bool
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """What became of one file's checksum; "unknown" when none is known to compare with."""

    file: str
    status: Status
    expected: str | None
    found: str | None


def _source(name: str) -> Source:
    return source_of(name, datasets.get(name))


def _roots(source: Source, root: Root) -> tuple[Path, ...]:
    return folders(root) if source.home is None else (source.home,)


def load(name: str, root: Root = None, **options: object) -> Dataset:
    """The data set of this `name`, from the folder `root` or else from the folders in $UNKNOT_DATA.

    The `options` by set: `normalize` ("standard" or "unit") for images; `labels` ("fine" or "coarse") for
    cifar100; `test_share` and `seed` for purchase100 and location30; `context`, `test_share` and `tokenizer`
    for shakespeare; `languages`, `tokenizer`, `context` and `prompt` for langid and sentiments; those of
    `unknot.texts` for texts, with the `path` of the file and its columns `text`, `label` and `client`.
    """
    if name == "folder" or (Path(name).is_dir() and name not in datasets.names()):
        raise ConfigError(
            f"{name!r} is no data set: files of your own, one a client, are read by unknot.folder(path), and "
            'in a TOML file by [data] name = "folder", path = ...'
        )
    source = _source(name)
    typed = datasets.typed(name, options)
    roots = _roots(source, root)
    found = {file.path: file.find(roots) for file in source.files}
    found = {path: place for path, place in found.items() if place is not None}
    missing = [file.path for file in source.files if file.path not in found and not file.optional]
    if missing:
        looked = ", ".join(map(str, roots)) or f"no folder: set {VARIABLE} or give root"
        raise DataError(f"{name}: {', '.join(missing)} not found (looked in {looked}). {source.how}")
    return source.read(found, **typed)


def catalogue(root: Root = None) -> list[Entry]:
    """Every data set that can be loaded, and whether its files are there (not whether they are right)."""
    entries = []
    for name in datasets.names():
        try:
            source = _source(name)
        except ConfigError as error:  # another package's, and broken: the others are there all the same
            entries.append(Entry(name, "", False, (), str(error), False))
            continue
        roots = _roots(source, root)
        present = all(file.find(roots) is not None for file in source.files if not file.optional)
        entries.append(
            Entry(
                source.name,
                source.description,
                present,
                tuple(str(place / file.path) for place in roots for file in source.files)
                or tuple(f"${VARIABLE}/{file.path}" for file in source.files),
                source.how,
                source.natural_clients,
                {file.path: file.sha256 for file in source.files if file.sha256},
            )
        )
    return entries


def verify(name: str, root: Root = None) -> list[Check]:
    """Compare a data set's files with their known checksums, one `Check` a file."""
    source = _source(name)
    roots = _roots(source, root)
    places = [(file, file.find(roots)) for file in source.files]
    return [_check(file, place) for file, place in places if place is not None or not file.optional]


def _check(file: File, place: Path | None) -> Check:
    if place is None:
        return Check(file.path, "missing", file.sha256, None)
    if file.sha256 is None or place.is_dir():
        return Check(file.path, "unknown", None, None)
    try:
        found = checksum(place)
    except DataError:
        return Check(file.path, "unreadable", file.sha256, None)
    return Check(file.path, "ok" if found == file.sha256 else "differs", file.sha256, found)
