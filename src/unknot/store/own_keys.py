"""Which keys are a run's: where they lie, and whether they and the folder fit together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from unknot.core.errors import StoreError, UnknotError
from unknot.store import files
from unknot.store.database import Database
from unknot.store.keyring import LOCK, KeyLock, Keyring, place_of
from unknot.store.lock import check_lock, holder
from unknot.store.noted import KEYS, begun, begun_in, broken_off, database, removed_in
from unknot.store.sealed import IDS, MARKS, opened
from unknot.store.shown import one_line, span


def keyring_of(folder: str | Path, keys: str | Path | None = None) -> Keyring:
    """The keys of a run, to look at it or to ask it; where they are not there, none: there are numbers."""
    path = Path(folder) / KEYS
    if keys is None and not os.path.lexists(path):
        return Keyring(path)
    with Database.open(database(folder), readonly=True) as db:
        return own_keyring(db, folder, keys)


def own_keyring(db: Database, folder: str | Path, keys: str | Path | None = None) -> Keyring:
    """The keys of a run, which must be there; another run's are refused.

    They are not looked for where the log says: it may be anybody's.
    """
    noted = begun_in(db, folder)[0]
    path, apart = Path(folder) / KEYS if keys is None else _given(keys), ""
    _check_place(folder, path)
    if keys is None and noted.get("keys") is not None:
        apart = f"the keys of {folder} are kept apart from it, at first in {one_line(noted['keys'])}: name "
        apart += "them with --keys (in Python: store=unknot.Store(DIR, keys=FILE))"
    if not os.path.lexists(path):
        if db.last("checkpoint") is None:
            raise StoreError(broken_off(noted, folder))
        if keys is not None:
            raise StoreError(f"there are no keys in {path}: name the file that the run was begun with")
        raise StoreError(
            apart
            or f"{path} is missing, and without its keys {folder} cannot be gone on with: take it from "
            "its backup"
        )
    renewed = list(_renewed_in(db))  # before the file is read: a run may be writing both, the file first
    found, mark = Keyring(path), noted.get("mark")
    if found.mark != mark:
        known = mark[:16].hex() if isinstance(mark, bytes) else "none"
        own = apart or "name its own with --keys, or put them back from their backup"
        raise StoreError(
            f"{path} has the keys of another run, not those of {folder}: the marks that a run and its keys "
            f"share are {found.mark.hex()} and {known}; {own}"
        )
    old = {c for written, clients in renewed if found.written < written for c in clients if found.holds(c)}
    if old:
        raise StoreError(
            f"{path} is a copy from before samples were erased (of {span(old)}), who have had other keys "
            "since: take a newer copy, and remove this one"
        )
    return found


def check_not_older(db: Database, keyring: Keyring, folder: str | Path) -> None:
    """Refuse a folder from before samples were erased, with keys from after it: they open nothing of theirs.

    Which samples it were nobody knows here. A run that is at it just then writes the keys twice.
    """
    old = {client for client, name in db.client_names().items() if not _opens(keyring, client, name)}
    for kind in (MARKS, IDS):
        parts = opened(db, keyring, kind).values()
        old |= {client for client, part in parts if part is None and keyring.holds(client)}
    if old and Keyring(keyring.path).written == keyring.written:
        raise StoreError(
            f"{folder} is a copy from before samples were erased (of {span(old)}), and {keyring.path} is "
            "from after it: what was sealed for them cannot be read any more, or is damaged. Put a later "
            "copy of the folder there, or begin the run anew, without those samples"
        )


def _opens(keyring: Keyring, client: int, name: bytes) -> bool:
    if not keyring.holds(client):  # one that was erased is told of elsewhere
        return True
    try:
        keyring.open(client, name, b"name")
    except StoreError:
        return False
    return True


def check_asked(folder: str | Path, keys: str | Path | None) -> None:
    """Whether what is asked of a run can ever be served: its process is there, or it can be gone on with."""
    with Database.open(database(folder), readonly=True) as db:
        apart = begun_in(db, folder)[0].get("keys") is not None
        if holder(folder) is not None:
            return
        if db.last("checkpoint") is None:
            raise StoreError(
                f"{folder} was begun, and nothing was kept yet: nobody would serve it. Begin it again first, "
                f"in the same folder (unknot run FILE.toml --out {folder})"
            )
        if keys is not None or not apart:  # who names a number needs no keys that lie elsewhere
            own_keyring(db, folder, keys)


def check_whole(folder: str | Path, keys: str | Path | None) -> None:
    """Whether the log of a run fits together and its keys are there, before what it names is opened."""
    with Database.open(database(folder), readonly=True) as db:
        db.verify()
        check_not_older(db, own_keyring(db, folder, keys), folder)


def new_keyring(folder: str | Path, keys: str | Path | None = None) -> Keyring:
    """Keys for a run that is begun, after `check_new`: new ones, or those of an earlier beginning."""
    place = Path(folder) / KEYS
    ring = Keyring(place if keys is None else keys)
    if os.path.lexists(place) and Keyring(place).path != ring.path:
        files.remove(place)  # when it was broken off they lay here
    return ring


def check_new(folder: str | Path, keys: str | Path | None = None, instead: bool = False) -> None:
    """Whether a run can have its keys there: a file that is there already must not be another run's.

    `instead` of a run that the folder holds, its own may be there; in the folder, also what is damaged.
    """
    place, known = Path(folder) / KEYS, None
    _check_place(folder, place if keys is None else keys)
    with suppress(UnknotError):
        known = begun(folder).get("mark")
    for path in dict.fromkeys((place, place if keys is None else _given(keys))):
        if not os.path.lexists(path):
            continue
        mark = None
        with suppress(StoreError):
            mark = Keyring(path).mark
        damaged = instead and path == place and (mark is None or known is None)
        if not damaged and (mark is None or mark != known):
            raise StoreError(f"{path} is there already, and keys are for one run: name another file for them")
    if keys is not None:
        above = next(one for one in Path(keys).absolute().parents if os.path.lexists(one))
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise StoreError(f"cannot write the keys {keys}: {above} is no folder that you may write into")
    check_lock(KeyLock(place if keys is None else keys).path)


def _given(keys: str | Path) -> Path:
    """The file that somebody named for keys; what is there must be one."""
    path = Path(keys)
    with suppress(OSError, ValueError):
        if (what := files.kind(os.stat(path, follow_symlinks=False).st_mode)) != "a plain file":
            raise StoreError(f"--keys must name a file of keys; {path} is {what}: name another file")
    return path


def _check_place(folder: str | Path, keys: str | Path) -> None:
    """In its own folder a run has its keys where they belong alone: in other places there, it sweeps."""
    with files.told("look at", Path(keys)):
        inner, path = Path(folder).resolve(), place_of(keys)
    if path != inner / KEYS and inner in (path, *path.parents):
        raise StoreError(
            f"the keys {keys} would lie in the run's own folder, among what it writes and removes: name a "
            f"file elsewhere, or leave it out for {Path(folder) / KEYS}"
        )
    if path.name.startswith((files.PART, LOCK)):
        raise StoreError(f"{keys} is called as files are that lie beside keys for a while: name another file")


def _renewed_in(db: Database) -> Iterator[tuple[int, list[int]]]:
    """How often the keys had been written once these clients, whose samples were erased, had new ones."""
    for entry in db.entries(kind="erased"):
        found = removed_in(entry)
        yield found["keys_written"], found["parts"]
