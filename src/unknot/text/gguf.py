"""GGUF, the file format of llama.cpp: settings, a tokenizer and tensors of a language model in one file.

Read by the package `gguf`; what is quantised becomes single precision again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unknot.core.errors import ConfigError, DataError, install


@dataclass(frozen=True)
class Gguf:
    """A GGUF file, whose tensors are read when they are asked for."""

    path: Path
    metadata: Mapping[str, Any]
    """Its settings by name."""
    tensors: Mapping[str, Any]
    """As the package has them, in the file's order."""

    @staticmethod
    def open(path: str | Path) -> Gguf:
        """Read the head of the file at `path`; the rest stays where it is."""
        path = Path(path)
        try:
            about = path.stat()
            return _opened(path, (about.st_mtime_ns, about.st_size))
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor as PyTorch has it: rows first."""
        return tuple(self.tensors[name].shape.tolist()[::-1])

    def tensor(self, name: str) -> Tensor:
        """A tensor in single precision."""
        from gguf import dequantize

        stored = self.tensors[name]
        try:
            values = dequantize(stored.data, stored.tensor_type)
        except NotImplementedError:
            raise DataError(
                f"{self.path}: tensor {name!r} is stored as {stored.tensor_type.name}, which is not read"
            ) from None
        return torch.from_numpy(np.array(values, np.float32)).reshape(self.shape(name))


@lru_cache(maxsize=1)  # model and tokenizer are read one after the other, and a vocabulary takes seconds
def _opened(path: Path, state: tuple[int, int]) -> Gguf:
    try:
        from gguf import GGUFReader
    except ImportError:
        raise ConfigError(f"{path}: GGUF files are read by the package gguf: {install('text')}") from None
    try:
        reader = GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except OSError:
        raise
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise DataError(f"{path} is no GGUF file that can be read: {error}") from None
    return Gguf(path, metadata, {tensor.name: tensor for tensor in reader.tensors})
