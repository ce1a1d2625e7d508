"""What a run's end leaves in its folder, in the open: it knows an erased client, so an erasure removes it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from unknot.core.errors import StoreError
from unknot.store.database import Database
from unknot.store.entries import plain, read_plain
from unknot.store.files import read_whole, told, whole_name

_LEFT = ("config.toml", "record.json", "report.html", "model.safetensors")
RESULTS = (*_LEFT, *(f".part.{name}" for name in _LEFT))
"""What an earlier end of the run left, whole or, of an earlier version, half: it knows the erased client."""
LONGEST = 1 << 30
"""So many bytes of a result are read."""


def note_left(db: Database, name: str) -> None:
    """Put down that the run leaves a file of that name in its folder: an erasure removes it.

    By a digest: what a user calls a file may be a client's name, and what the log has stays.
    """
    db.append([("left", plain({"file": _digest(name)}))])


def left_in(db: Database, folder: Path) -> list[str]:
    """The files in a folder that were noted so, whole or half."""
    noted = [read_plain(entry.body) for entry in db.entries(kind="left")]
    found = [one.get("file") for one in noted if isinstance(one, dict)]
    known = {digest for digest in found if isinstance(digest, bytes)}
    with told("look through", folder):
        there = sorted(os.listdir(folder)) if known else []
    return [name for name in there if known & {_digest(name), _digest(whole_name(name))}]


def results_in(db: Database, folder: Path) -> list[str]:
    """What an earlier end of the run left, and the files that were noted."""
    results = [name for name in RESULTS if os.path.lexists(folder / name)]
    return [*results, *(name for name in left_in(db, folder) if name not in results)]


def note_results(db: Database, folder: Path, names: Iterable[str] = ()) -> None:
    """Put down what the run leaves, by size and digest, so that what is changed later is found.

    Without names, that some are about to be written: until they are noted, nothing is known of them.
    """
    contents = {name: read_whole(folder / name, LONGEST) for name in names if name in _LEFT}
    noted = {name: [len(one), hashlib.sha256(one).digest()] for name, one in contents.items()}
    db.append([("results", plain(noted))])


def changed_in(db: Database, folder: Path) -> list[str]:
    """The results that are there, and are not as the run left them: changed, or damaged."""
    entry = db.last("results")
    noted = None if entry is None else read_plain(entry.body)
    if not isinstance(noted, Mapping):
        return []
    return [name for name in _LEFT if name in noted and _changed(folder / name, noted[name])]


def _changed(path: Path, noted: object) -> bool:
    """What is too long to be looked at is taken for what it was."""
    with suppress(OSError):
        size = path.lstat().st_size
        if not isinstance(noted, list) or len(noted) != 2 or size != noted[0]:
            return True
        with suppress(StoreError):
            return size <= LONGEST and hashlib.sha256(read_whole(path, LONGEST)).digest() != noted[1]
        return True  # no plain file
    return False


def _digest(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()
