"""Which files a kept run's experiment reads, and what was in them when it was begun."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

FILES = "files"
"""The log's word for the digests of what an experiment's settings name, but for its data."""


def digests_of(paths: Mapping[str, Sequence[str]]) -> dict[str, list[bytes]]:
    """A digest of each file and folder that settings name, by setting; empty where nothing can be read.

    Data is left out: a run knows that again by what each client holds, and an erased client's may be gone.
    """
    mine = {place: named for place, named in paths.items() if not place.startswith("data.")}
    return {place: [_digest(Path(path)) for path in named] for place, named in mine.items()}


def _digest(path: Path) -> bytes:
    found = hashlib.sha256()
    try:
        for file in _below(path):
            found.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with open(file, "rb") as stream:
                while piece := stream.read(1 << 20):
                    found.update(piece)
    except (OSError, ValueError):
        return b""
    return found.digest()


def _below(path: Path) -> list[Path]:
    """The file, or the files that lie in the folder itself: no more, for it may be anybody's who names it."""
    if path.is_dir():
        return sorted(one for one in path.iterdir() if one.is_file())
    if not path.is_file():  # a pipe, a device
        raise OSError("no plain file")
    return [path]
