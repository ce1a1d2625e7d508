"""Tensors that lie in a file and not in memory: pages of it come in as they are read.

Those of a user are never written to. Where one has to be copied, or put together of several, the copy lies
in a file without a name, in the folder for temporary files: the system takes it back with the process.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import DataError

MARK = "unknot_mapped"  # the attribute that says of a tensor that it lies in a file
_CHUNK = 1 << 22


def is_mapped(values: Tensor) -> bool:
    """Whether it is known to lie in a file."""
    return bool(getattr(values, MARK, False))


def mapped(values: Tensor) -> Tensor:
    """The tensor, known to lie in a file from here on."""
    setattr(values, MARK, True)
    return values


def root_of(values: NDArray[Any]) -> np.memmap[Any, Any] | None:
    """The whole memory-mapped array that this is, or is a view of; None where it lies in memory."""
    found: object = values
    while isinstance(found, np.ndarray):
        if isinstance(found, np.memmap) and not isinstance(found.base, np.ndarray):
            # What is computed from a memory-mapped array goes by the same type, but has no file.
            return found if getattr(found, "_mmap", None) is not None else None
        found = found.base
    return None


def lies_in_a_file(values: NDArray[Any] | Tensor) -> bool:
    """Whether it is a view of a file, as of ``np.load(mmap_mode="r")`` or ``torch.load(mmap=True)``.

    Of a tensor that can be seen on Linux alone.
    """
    if isinstance(values, np.ndarray):
        return root_of(values) is not None
    there = values.numel() > 0 and values.device.type == "cpu" and values.layout == torch.strided
    return is_mapped(values) or (there and _in_a_file(values.data_ptr()))


def as_tensor(values: NDArray[Any]) -> Tensor:
    """An array as a tensor without a copy; one that must not be written to is not written to here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about arrays that are read-only
        return torch.from_numpy(values)


def stored(parts: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """These rows, one part after the other, in a new file without a name."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    whole = _room(shape, dtype)
    step = max(1, _CHUNK // max(1, whole[0].numel()))
    place = 0
    for part in parts:
        for first in range(0, len(part), step):
            rows = part[first : first + step]
            whole[place : place + len(rows)] = rows
            place += len(rows)
    return mapped(whole)


def _room(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Room for a tensor in a file without a name; where there is none, that is said now."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            memory = np.memmap(file, dtype=np.uint8, mode="r+", shape=size)
    except OSError as error:
        raise DataError(
            f"no room for {size:,} bytes in {folder}: {error.strerror or error}. "
            "Set TMPDIR to a folder with more"
        ) from None
    return torch.from_numpy(memory).view(dtype).view(shape)


def _in_a_file(address: int) -> bool:
    """Whether this place in memory is a file's; where the system does not tell, it is taken not to be."""
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                place, *rest = line.split(maxsplit=5)
                first, last = (int(end, 16) for end in place.split("-"))
                if first <= address < last:
                    path = rest[4].strip() if len(rest) > 4 else ""
                    return path.startswith("/") and not path.startswith(("/dev/", "/anon_hugepage"))
    except (OSError, ValueError):
        pass
    return False
