"""What a run's end leaves in its folder, in the open: it knows an erased client, so an erasure removes it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from unknot.store.database import Database
from unknot.store.entries import plain, read_plain
from unknot.store.files import told, whole_name

_LEFT = ("config.toml", "record.json", "report.html", "model.safetensors")
RESULTS = (*_LEFT, *(f".part.{name}" for name in _LEFT))
"""What an earlier end of the run left, whole or, of an earlier version, half: it knows the erased client."""


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


def _digest(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()
