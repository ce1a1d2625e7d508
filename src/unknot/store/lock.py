"""One process a run: a lock that goes with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from unknot.core.commands import command
from unknot.core.errors import StoreError
from unknot.store.files import check_found, opened, told
from unknot.store.shown import one_line

_NAME = "lock"
_PATIENCE = 0.2  # seconds: so long may somebody be looking who holds it
_MOST = 4096
_FEW = 80  # letters of who holds it are shown


@dataclass(frozen=True)
class Holder:
    """Which process runs a run, on which machine, since when (UTC)."""

    pid: int
    host: str
    since: str


class Process:
    """The process that took something: one that is forked from it has that in its memory too."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def here(self) -> bool:
        """Whether it is this one."""
        return os.getpid() == self.pid

    def check(self, path: Path) -> None:
        """Refuse what would have a forked process write what its parent holds."""
        if not self.here:
            raise StoreError(
                f"{path} is held by process {self.pid}, and this one (process {os.getpid()}) was forked from "
                "it: one process at a time goes on with a run. Once that one is gone, or has let go of it "
                "(fed.close()), take it here: unknot.simulate(..., store=...)"
            )


class Lock:
    """While it is held, nobody else runs what lies in the `folder`; it is held in a ``with``."""

    def __init__(self, folder: str | Path, name: str = _NAME) -> None:
        self.folder = Path(folder)
        self.path = self.folder / name
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        with told("lock", self.path):
            descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
            )
            try:
                check_found(self.path, os.fstat(descriptor))
                if not _taken(descriptor):
                    raise StoreError(self._refusal(_noted(self.path)))
                if not _is_note(os.pread(descriptor, _MOST + 1, 0)):
                    raise StoreError(_of_others(self.path))
                now = datetime.now(UTC).isoformat(timespec="seconds")
                note = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, note.encode(), 0)
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor = descriptor
        _HELD.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def check(self) -> None:
        """Raise unless it is held, and still lies where it was taken.

        A folder that is moved takes its lock along, and what comes to its place is somebody else's.
        """
        if self._descriptor is None:
            raise StoreError(f"{self.folder} was let go of, and nothing is written there any more")
        held, there = os.fstat(self._descriptor), None
        with suppress(OSError):
            there = os.stat(self.path, follow_symlinks=False)
        if there is None or (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            raise StoreError(
                f"{self.folder} was moved, removed or replaced while this process (process {os.getpid()}) "
                f"kept its run there: {self.path} is not the lock that it took. Nothing is written there or "
                "removed any more. Where the folder lies elsewhere now, go on with it there, from its last "
                "checkpoint: unknot resume; in Python, build the federation again with that folder (store=)"
            )

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _HELD.discard(self)

    def _refusal(self, holder: Holder) -> str:
        return (
            f"run {self.folder} is being run by process {holder.pid} on {holder.host} since {holder.since}; "
            f"stop it with {command('stop', self.folder)}, or, in Python, let go of it (fed.close())"
        )


def holder(folder: str | Path) -> Holder | None:
    """Who runs what lies in the `folder`; None if nobody does."""
    path = Path(folder) / _NAME
    if not os.path.lexists(path):
        return None
    with opened(path) as (descriptor, _), told("read", path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _noted(path)
        return None


def is_lock(path: Path) -> bool:
    """Whether a file was left by a lock: it says who held it, or nothing yet."""
    return _is_note(_text(path))


def check_lock(path: Path) -> None:
    """Raise where a lock would be refused its place, for somebody's file lies there: nothing is made here."""
    with told("look at", path), suppress(FileNotFoundError, NotADirectoryError):
        check_found(path, os.lstat(path))
        if not is_lock(path):
            raise StoreError(_of_others(path))


def was_held(folder: Path) -> bool:
    """Whether somebody has run what lies in the `folder`, now or before."""
    path = folder / _NAME
    return os.path.lexists(path) and _noted(path).pid > 0


def _taken(descriptor: int) -> bool:
    """Whether the lock could be had; who only looks at it holds it for a moment, and is waited for."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        else:
            return True


def _is_note(text: bytes) -> bool:
    """Whether this is what a lock leaves; a crash of the machine may have left it empty, or zeros."""
    return len(text) <= _MOST and (not text.strip(b"\0") or _read(text).pid > 0)


def _of_others(path: Path) -> str:
    return (
        f"{path} is not what a lock leaves, and would be written over: move it away, or remove it if it is "
        "nobody's"
    )


def _noted(path: Path) -> Holder:
    """What the holder wrote, as far as it can be read."""
    return _read(_text(path))


def _text(path: Path) -> bytes:
    with opened(path) as (descriptor, _), told("read", path):
        return os.pread(descriptor, _MOST + 1, 0)


def _read(text: bytes) -> Holder:
    try:
        note = json.loads(text)
        found = Holder(note["pid"], note["host"], note["since"])
        if [type(value) for value in (found.pid, found.host, found.since)] == [int, str, str]:
            return Holder(found.pid, one_line(found.host, _FEW), one_line(found.since, _FEW))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return Holder(0, "unknown", "unknown")


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forked() -> None:
    """A child has the descriptor too, and would hold the lock after its parent: it closes its own."""
    for lock in list(_HELD):
        lock._let_go()


os.register_at_fork(after_in_child=_forked)
