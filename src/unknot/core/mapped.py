"""Tensors that lie in a file and not in memory: pages of it come in as they are read.

The file has no name and lies in the folder for temporary files: the system takes it back with the process.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence

import torch
from torch import Tensor

from unknot.core.errors import DataError


def is_mapped(values: Tensor) -> bool:
    """Whether it lies in a file of `stored`."""
    return values.untyped_storage().filename is not None


def stored(parts: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """These rows, one part after the other, in a new file without a name."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    size = math.prod(shape)
    try:
        with tempfile.NamedTemporaryFile() as file:
            if size and hasattr(os, "posix_fallocate"):  # a disk that is full is noticed now
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            whole = torch.from_file(file.name, shared=True, size=size, dtype=dtype).view(shape)
    except OSError as error:
        raise DataError(
            f"no room for {size * dtype.itemsize:,} bytes in {tempfile.gettempdir()}: {error.strerror}. "
            "Set TMPDIR to a folder with more"
        ) from None
    return torch.cat(list(parts), out=whole)
