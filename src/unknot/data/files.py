"""Data files: where they are looked for, how they are read, and what is said of one that cannot be."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import DataError

DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
"""What reading a file that is damaged, or another one, ends in."""


@dataclass(frozen=True)
class File:
    """A file (or folder) of a data set: its place below the root, and what its contents hash to.

    What lies at `also` does as well: the file gzipped (the checksum is of the uncompressed contents), or the
    folder that an archive unpacks to. An `optional` file need not be there.
    """

    path: str
    sha256: str | None = None
    also: str | None = None
    optional: bool = False

    def find(self, roots: Sequence[Path]) -> Path | None:
        places = (root / name for root in roots for name in (self.path, self.also) if name)
        # False, too, where one may not look.
        return next((place for place in places if os.path.exists(place)), None)


@contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Within: whatever cannot be read is a `DataError` that names the file."""
    try:
        yield
    except DAMAGE as error:
        told = f"{type(error).__name__}: {error}"
        raise DataError(f"{file}: this cannot be read ({told}). Get the file again.") from error


def read_bytes(path: Path) -> bytes:
    """A file's contents, uncompressed."""
    with reading(path):
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw


def checksum(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def read_npz(path: Path, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """These arrays of an npz file; never unpickles."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names}
