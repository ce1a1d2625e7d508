"""Where data files are looked for, how they are read, and what to say when one is wrong."""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import DataError


@dataclass(frozen=True)
class File:
    """A file (or folder) of a data set: its place below the root, and what its contents hash to.

    With `gzipped`, ``path + ".gz"`` does as well; the checksum is of the uncompressed contents, for
    the same data is gzipped differently by different hands. With `arrays`, it is an npz file and
    the checksum is of these arrays as little-endian int64. An `optional` file need not be there; the
    folder `unpacked` does as well as the archive that it comes from.
    """

    path: str
    sha256: str | None = None
    gzipped: bool = False
    arrays: tuple[str, ...] = ()
    optional: bool = False
    unpacked: str = ""

    def find(self, roots: Sequence[Path]) -> Path | None:
        names = [self.path, *([f"{self.path}.gz"] if self.gzipped else []), *filter(None, [self.unpacked])]
        for root in roots:
            for name in names:
                candidate = root / name
                if os.path.exists(candidate):  # False also where one may not look
                    return candidate
        return None

    def checksum(self, found: Path) -> str:
        digest = hashlib.sha256()
        if self.arrays:
            arrays = read_npz(found, self.arrays)
            for name in self.arrays:
                digest.update(arrays[name].astype("<i8").tobytes())
            return digest.hexdigest()
        try:
            with _open(found) as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(found, error) from error
        return digest.hexdigest()


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def read_bytes(path: Path) -> bytes:
    """A file's contents, uncompressed."""
    try:
        with _open(path) as stream:
            return stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def read_npz(path: Path, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """These arrays of an npz file; never unpickles."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise wrong(path, "an npz archive", "a single array")
            missing = [name for name in names if name not in archive.files]
            if missing:
                raise wrong(path, f"the arrays {', '.join(names)}", f"only {', '.join(archive.files)}")
            return {name: archive[name] for name in names}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise unreadable(path, error) from error


def wrong(path: Path, expected: str, found: str) -> DataError:
    """The error for a file that is not what it should be."""
    return DataError(f"{path}: expected {expected}, found {found}. Get the file again, or check where it is.")


def unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: expected a file that can be read, found: {error}. Get the file again.")


def check_labels(path: Path, labels: NDArray[Any], classes: int, first: int = 0) -> None:
    """Raise unless every label lies in first..first+classes-1."""
    outside = np.flatnonzero((labels < first) | (labels >= first + classes))
    if len(outside):
        raise wrong(
            path,
            f"labels from {first} to {first + classes - 1}",
            f"label {labels[outside[0]]} in sample {outside[0]}",
        )
