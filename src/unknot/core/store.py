"""Room for a method's history: so much in memory, so much on disk, and not a byte more."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unknot.core.errors import StoreFullError

MIB = 2**20


class Shelf:
    """Vectors by name: the newest in memory up to `memory` bytes, older ones in files up to `disk` bytes.

    `memory=None` keeps everything in memory. Files lie in a temporary folder that goes when the
    shelf does; a deleted vector's file is deleted at once.
    """

    def __init__(self, memory: int | None = None, disk: int = 0) -> None:
        self._memory_limit = memory
        self._disk_limit = disk
        self._held: dict[object, Tensor] = {}
        self._filed: dict[object, tuple[Path, torch.dtype, torch.device, int]] = {}
        self._folder: Path | None = None
        self._files = 0
        self.memory_bytes = 0
        self.disk_bytes = 0

    def __setitem__(self, name: object, vector: Tensor) -> None:
        if name in self:
            del self[name]
        self._held[name] = vector
        self.memory_bytes += _size(vector)
        while self._memory_limit is not None and self.memory_bytes > self._memory_limit:
            self._file(next(iter(self._held)))

    def __getitem__(self, name: object) -> Tensor:
        if name in self._held:
            return self._held[name]
        path, dtype, device, _ = self._filed[name]
        return torch.from_numpy(np.fromfile(path, dtype=np.uint8)).view(dtype).to(device)

    def __delitem__(self, name: object) -> None:
        if name in self._held:
            self.memory_bytes -= _size(self._held.pop(name))
            return
        path, _, _, size = self._filed.pop(name)
        path.unlink()
        self.disk_bytes -= size

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._filed

    def __len__(self) -> int:
        return len(self._held) + len(self._filed)

    @property
    def nbytes(self) -> int:
        return self.memory_bytes + self.disk_bytes

    def _file(self, name: object) -> None:
        vector = self._held[name]
        size = _size(vector)
        if self.disk_bytes + size > self._disk_limit:
            raise StoreFullError(
                f"the history is full: {self.memory_bytes / MIB:.0f} MiB in memory and "
                f"{self.disk_bytes / MIB:.0f} MiB of {self._disk_limit / MIB:.0f} MiB on disk. "
                "Allow the method more (memory, disk, in MiB), or train for fewer rounds"
            )
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="unknot-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{self._files}.bin"
        self._files += 1
        vector.detach().cpu().contiguous().view(torch.uint8).numpy().tofile(path)
        del self._held[name]
        self.memory_bytes -= size
        self._filed[name] = (path, vector.dtype, vector.device, size)
        self.disk_bytes += size


def _size(vector: Tensor) -> int:
    return vector.numel() * vector.element_size()
