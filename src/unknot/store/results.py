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
from unknot.store.files import opened, read_at, told, whole_name
from unknot.store.keyring import Keyring

RESULTS = ("config.toml", "record.json", "report.html", "model.safetensors")
"""What an earlier end of the run left: it knows the erased client."""
MOST = 1 << 36
"""So many bytes of a result are looked at: nobody has checked the folder that it lies in."""
PIECE = 1 << 22


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


def note_results(db: Database, keyring: Keyring, folder: Path, names: Iterable[str] = ()) -> None:
    """Put down what the run leaves, so that what is changed later is found.

    By codes that go with the first client that is erased: a digest would tell a name to whom guesses it.
    Without names, that some are about to be written: until they are noted, nothing is known of them.
    """
    codes = {"": code} if names and (code := _code(keyring, None)) is not None else {}
    noted = {name: _code(keyring, folder / name) for name in names if codes and name in RESULTS}
    db.append([("results", plain(codes | noted))])


def are_noted(db: Database) -> bool:
    """Whether it is known what the run left last."""
    entry = db.last("results")
    noted = None if entry is None else read_plain(entry.body)
    return isinstance(noted, Mapping) and type(noted.get("")) is bytes


def changed_in(db: Database, keyring: Keyring, folder: Path) -> list[str]:
    """The results that are there, and are not as the run left them: changed, or damaged.

    None where that is not known: without the keys, or once one of them has gone.
    """
    entry = db.last("results")
    noted = None if entry is None else read_plain(entry.body)
    if not isinstance(noted, Mapping) or type(own := noted.get("")) is not bytes:
        return []
    if own != _code(keyring, None):
        return []
    return [name for name in RESULTS if name in noted and _changed(keyring, folder / name, noted[name])]


def _changed(keyring: Keyring, path: Path, noted: object) -> bool:
    with suppress(OSError):
        if path.lstat().st_size > MOST:
            return False
        with suppress(StoreError):
            return _code(keyring, path) != noted
        return True  # no plain file
    return False


def _code(keyring: Keyring, path: Path | None) -> bytes | None:
    """The code of a file; without one, of nothing: it tells whether the keys are those that they were."""
    if (code := keyring.code()) is None:
        return None
    if path is not None:
        with opened(path) as (descriptor, size):
            for start in range(0, size, PIECE):
                code.update(read_at(descriptor, start, min(PIECE, size - start), path))
    return code.digest()


def _digest(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()
