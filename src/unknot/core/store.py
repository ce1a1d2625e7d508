"""Room for a method's history: so much in memory, so much on disk, and not a byte more."""

from __future__ import annotations

import tempfile
import weakref
from bisect import bisect
from dataclasses import dataclass
from typing import IO

import numpy as np
import torch
from torch import Tensor

from unknot.core import cipher
from unknot.core.digests import digest_of
from unknot.core.errors import StoreFullError

MIB = 2**20
_ZEROS = bytes(MIB)


@dataclass(frozen=True)
class _Filed:
    """Where a vector lies in the file, in pieces (start, size), under which key, and what it was."""

    pieces: tuple[tuple[int, int], ...]
    key: bytearray
    dtype: torch.dtype
    device: torch.device
    size: int


class Shelf:
    """Vectors by name: the newest in memory up to `memory` bytes, older ones in a file up to `disk` bytes.

    `memory=None` keeps everything in memory. The file has no name: it is unlinked as soon as it is
    made, so the system takes it back when the process ends, however it ends. What the disk still has
    then is noise: each vector lies there under a key of its own, which is in this process's memory
    alone. A deleted vector's key is wiped, its bytes are overwritten at once, and their room is used
    again, in pieces where it must be: the file is never longer than what lay on disk at the most.
    """

    def __init__(self, memory: int | None = None, disk: int = 0) -> None:
        self._memory_limit = memory
        self._disk_limit = disk
        self._held: dict[object, Tensor] = {}
        self._filed: dict[object, _Filed] = {}
        self._file: IO[bytes] | None = None
        self._free: list[tuple[int, int]] = []
        self._end = 0
        self._digests: dict[object, str] = {}
        self.memory_bytes = 0
        self.disk_bytes = 0

    def __setitem__(self, name: object, vector: Tensor) -> None:
        if name in self:
            del self[name]
        self._held[name] = vector
        self.memory_bytes += _size(vector)
        while self._memory_limit is not None and self.memory_bytes > self._memory_limit:
            self._spill(next(iter(self._held)))

    def __getitem__(self, name: object) -> Tensor:
        if name in self._held:
            return self._held[name]
        filed = self._filed[name]
        if not any(filed.key):
            raise KeyError(name)  # it was deleted, and the disk refused to be written over
        raw = bytearray(filed.size)
        place = memoryview(raw)
        for start, size in filed.pieces:
            self._read(start, place[:size])
            place = place[size:]
        plain = cipher.apply(filed.key, memoryview(raw))
        # NumPy reads an empty buffer, too; torch does not.
        return torch.from_numpy(np.frombuffer(plain, dtype=np.uint8)).view(filed.dtype).to(filed.device)

    def __delitem__(self, name: object) -> None:
        self._digests.pop(name, None)
        if name in self._held:
            self.memory_bytes -= _size(self._held.pop(name))
            return
        filed = self._filed[name]
        filed.key[:] = bytes(len(filed.key))  # first: a disk may keep what is overwritten, or refuse to
        for start, size in filed.pieces:
            self._blank(start, size)
        del self._filed[name]
        for piece in filed.pieces:
            _release(self._free, piece)
        self.disk_bytes -= filed.size

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._filed

    def __len__(self) -> int:
        return len(self._held) + len(self._filed)

    @property
    def nbytes(self) -> int:
        return self.memory_bytes + self.disk_bytes

    @property
    def room(self) -> tuple[int | None, int]:
        """How many bytes it may take in memory, and on disk."""
        return self._memory_limit, self._disk_limit

    def digest(self, name: object) -> str:
        """That of a vector; of one that lies on disk it is found once."""
        if name not in self._digests:
            self._digests[name] = digest_of(self[name])
        return self._digests[name]

    def device(self, name: object) -> torch.device:
        """The device that a vector is from."""
        return (self._held[name] if name in self._held else self._filed[name]).device

    def _spill(self, name: object) -> None:
        vector = self._held[name]
        size = _size(vector)
        if self.disk_bytes + size > self._disk_limit:
            raise StoreFullError(
                f"the history is full: {self.memory_bytes / MIB:.0f} MiB in memory and "
                f"{self.disk_bytes / MIB:.0f} MiB of {self._disk_limit / MIB:.0f} MiB on disk. "
                "Allow the method more (memory, disk, in MiB), or train for fewer rounds"
            )
        pieces, free, end = self._room(size)
        key = cipher.new_key()
        place = cipher.apply(key, vector.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        for start, length in pieces:
            self._write(start, place[:length])
            place = place[length:]
        # Only now: a write that failed (no space left on the device) has changed nothing.
        self._free, self._end = free, end
        del self._held[name]
        self.memory_bytes -= size
        self._filed[name] = _Filed(pieces, key, vector.dtype, vector.device, size)
        self.disk_bytes += size

    def _room(self, size: int) -> tuple[tuple[tuple[int, int], ...], list[tuple[int, int]], int]:
        """Pieces for so many bytes, free ones first; and what is free, and where the end is, after that."""
        pieces: list[tuple[int, int]] = []
        free = list(self._free)
        while size and free:
            start, length = free.pop()
            taken = min(size, length)
            pieces.append((start, taken))
            size -= taken
            if taken < length:
                free.append((start + taken, length - taken))
        if size:
            pieces.append((self._end, size))
        return tuple(pieces), free, self._end + size

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="unknot-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        return self._file

    def _write(self, start: int, data: memoryview | bytes) -> None:
        file = self._opened()
        file.seek(start)
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def _read(self, start: int, into: memoryview) -> None:
        file = self._opened()
        file.seek(start)
        while into:
            count = file.readinto(into)  # type: ignore[attr-defined]
            if not count:
                raise OSError("a history file is shorter than what was written to it")
            into = into[count:]

    def _blank(self, start: int, size: int) -> None:
        for offset in range(0, size, MIB):
            self._write(start + offset, memoryview(_ZEROS)[: min(MIB, size - offset)])


def _release(free: list[tuple[int, int]], piece: tuple[int, int]) -> None:
    """Put a piece among the free ones, which are in order; neighbours become one."""
    start, size = piece
    place = bisect(free, piece)
    if place < len(free) and free[place][0] == start + size:
        size += free.pop(place)[1]
    if place and sum(free[place - 1]) == start:
        place -= 1
        before, more = free.pop(place)
        start, size = before, more + size
    free.insert(place, (start, size))


def _size(vector: Tensor) -> int:
    return vector.numel() * vector.element_size()
