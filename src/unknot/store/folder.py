"""A run's folder in the hands of one process: its lock, its database, its keys, its weights."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from unknot.core.commands import command
from unknot.core.errors import StoreError
from unknot.store.access import check_files
from unknot.store.checkpoint import STATE
from unknot.store.database import Database
from unknot.store.files import is_half, is_part, make_folder, remove, sweep, told
from unknot.store.keyring import KeyLock, Keyring
from unknot.store.lock import Lock
from unknot.store.noted import DATABASE, KEYS
from unknot.store.own_keys import check_new, new_keyring, own_keyring
from unknot.store.results import RESULTS, left_in
from unknot.store.rows import Asked
from unknot.store.taking import holds_run
from unknot.store.vault import WEIGHTS, Vault


class RunFolder:
    """A folder that this process has taken, until `close`: for a `new` run, or to go on with its own.

    Its database, its keys and its weights ask before whatever they write or remove whether it is still the
    one that was taken (`check`): all goes by its path, and what lies there by then may be another run.
    """

    def __init__(self, path: Path, keys: Path | None, new: bool) -> None:
        with told("find", path):  # once: the working directory may change while the run goes on
            self.path = path = path.absolute()
            keys = None if keys is None else keys.absolute()
        self.said: list[str] = []
        """What whoever runs the run must know, in words."""
        if os.path.lexists(path / DATABASE):
            check_files(path / DATABASE)  # before anything is written
        self._stack = ExitStack()
        self._lock = self._stack.enter_context(Lock(path))
        try:
            self.check()
            _tidy(path)
            there = (path / DATABASE).exists()
            self.db = Database.open(path / DATABASE) if there else Database.create(path / DATABASE)
            self._stack.callback(self.db.close)
            self.db.guard = self._lock.check
            self.keyring = self._find_keys(keys, new)
            make_folder(path / STATE)
            self.vault = Vault(path / WEIGHTS, self.keyring, self._lock.check)
        except BaseException:
            self._stack.close()
            raise

    def check(self) -> None:
        """Raise where the folder is not the one any more that this process took: see `Lock.check`."""
        self._lock.check()

    def close(self) -> None:
        """Let go of it: another process may take it up."""
        self._stack.close()

    def close_with(self, owner: object) -> None:
        """Let go of it once the `owner` is gone, unless it is another process's by then."""
        weakref.finalize(owner, _let_go, self._stack, os.getpid())

    def when_closed(self, do: Callable[[], None]) -> None:
        """Call this when it is let go of."""
        self._stack.callback(do)

    def _find_keys(self, given: Path | None, new: bool) -> Keyring:
        """The keys: new ones for a run that is begun, its own for one that is gone on with."""
        kept = self.db.last("checkpoint") is not None
        if new and kept:
            raise StoreError(
                f"{self.path} holds a run already: go on with it (unknot resume), or name another folder"
            )
        if not new and not kept:
            raise nothing_kept(self.path)
        path = self.path / KEYS if given is None else given
        if not new:
            own_keyring(self.db, self.path, given)  # first: beside others' keys nothing is left
        self._stack.enter_context(KeyLock(path))
        found = new_keyring(self.path, given) if new else own_keyring(self.db, self.path, given)
        found.said = self.said
        found.guard = self._lock.check
        return found


def is_kept(folder: Path) -> bool:
    """Whether a folder has a run that can be gone on with: one that got as far as its first checkpoint."""
    if not holds_run(folder):
        return False
    with Database.open(folder / DATABASE, readonly=True) as db:
        return db.last("checkpoint") is not None


def nothing_kept(folder: Path) -> StoreError:
    """What is said of a folder in which a run was begun, and has no checkpoint to go on from."""
    return StoreError(f"{folder} was begun, and nothing was kept yet: begin it again, in the same folder")


def discard(folder: str | Path, keys: str | Path | None = None) -> None:
    """Take a run away, overwritten as far as that goes; not while somebody runs it. What is others' stays.

    Nor while a request waits there: it may have come since that was looked at.

    Keys that lie apart go where they are named. Those of another run are refused before anything goes.
    """
    place = Path(folder)
    if not holds_run(place):
        return
    with Lock(place):
        check_new(place, keys, instead=True)
        left = _left_unless_asked(place)
        for path in (place / KEYS, keys):
            if path is not None and os.path.lexists(path):
                with KeyLock(path) as lock:
                    remove(lock.keys)
        for below in (STATE, WEIGHTS):
            if (place / below).is_dir() and not (place / below).is_symlink():
                sweep(place / below, ())
        for name in (*RESULTS, *left, f"{DATABASE}-wal", f"{DATABASE}-shm", DATABASE):
            if os.path.lexists(place / name):
                remove(place / name)


def _left_unless_asked(place: Path) -> list[str]:
    """What a run has left beside its results; raises where a request waits there."""
    asked, left = list[Asked](), list[str]()
    with suppress(StoreError), Database.open(place / DATABASE, readonly=True) as db:  # or damaged
        asked = db.unserved()
        left = left_in(db, place)
    if asked:
        raise StoreError(
            f"{place} holds a run that is still to serve what was asked of it (request {asked[0].number}), "
            f"and is not written over: have it served first ({command('resume', place)})"
        )
    return left


def _tidy(folder: Path) -> None:
    """Take away what a crash left beside its place; the keys' own are the keyring's."""
    with told("look through", folder):
        beside = os.listdir(folder)
    written = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", *RESULTS)
    for name in beside:
        if any(is_part(name, ours) for ours in written):
            remove(folder / name)
    for inner in (folder / STATE, folder / WEIGHTS):
        if inner.is_dir() and not inner.is_symlink():
            with told("look through", inner):
                half = [name for name in os.listdir(inner) if is_half(name)]
            for name in half:
                remove(inner / name)


def _let_go(stack: ExitStack, process: int) -> None:
    """Its owner is gone: let go of the folder, unless that is another process's by now."""
    if os.getpid() == process:
        with suppress(StoreError):
            stack.close()
