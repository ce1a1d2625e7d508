"""Which files a kept run's experiment reads, and what was in them when it was begun."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

FILES = "files"
"""The log's word for the digests of what an experiment's settings name, but for its data."""


def digests_of(paths: Mapping[str, Sequence[str]]) -> dict[str, list[bytes]]:
    """A digest of each file and folder that settings name, by setting; empty where nothing can be read.

    Data is left out: a run knows that again by what each client holds, and an erased client's may be gone.
    """
    mine = {place: named for place, named in paths.items() if not place.startswith("data.")}
    return {place: [_digest(Path(path)) for path in named] for place, named in mine.items()}


def odd(path: str) -> tuple[str, str] | None:
    """What a path leads to, or has below it, that is neither a file nor a folder: where, and in words."""
    from unknot.store.files import kind

    below = (os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
    for one in chain([path], below):
        try:
            mode = os.stat(one).st_mode
        except (OSError, ValueError):  # said where it is read
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return one, kind(mode)
    return None


def _digest(path: Path) -> bytes:
    found = hashlib.sha256()
    try:
        for file in _below(path):
            found.update(os.fsencode(file.relative_to(path)) + f"\0{file.stat().st_size}\0".encode())
            with open(file, "rb") as stream:
                while piece := stream.read(1 << 20):
                    found.update(piece)
    except (OSError, ValueError):
        return b""
    return found.digest()


def _below(path: Path) -> list[Path]:
    """The file, or the files in and below the folder; links to folders are not followed, for they may loop.

    Folders of kept runs are left out: they change as their runs go on.
    """
    from unknot.store.noted import DATABASE

    if path.is_dir():
        found: list[Path] = []
        for place, folders, names in os.walk(path):
            if DATABASE in names:
                folders.clear()
            else:
                found += [file for name in names if (file := Path(place, name)).is_file()]
        return sorted(found)
    if not path.is_file():  # a pipe, a device
        raise OSError("no plain file")
    return [path]
