"""Who is who in a run's folder: its clients' sealed names, their numbers, its keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unknot.core.errors import RequestError, StoreError, nearest
from unknot.store.checkpoint import Checkpoint
from unknot.store.database import Database
from unknot.store.entries import read_named, read_plain
from unknot.store.keeper import DATABASE, KEYS
from unknot.store.keyring import Keyring
from unknot.store.rows import Entry


def database(folder: str | Path) -> Path:
    """Where the database of the run in a folder is."""
    path = Path(folder) / DATABASE
    if not os.path.lexists(path):
        raise StoreError(f"{folder} holds no run: name the folder of one (unknot runs shows them)")
    return path


def begun(folder: str | Path) -> Mapping[str, Any]:
    """What was noted when the run was begun."""
    with Database.open(database(folder), readonly=True) as db:
        return begun_in(db, folder)[0]


def check_keys(folder: str | Path, keys: str | Path | None) -> None:
    """Whether the keys of a run are named, where they lie apart from it: it is not gone on with without."""
    apart = begun(folder).get("keys")
    if apart is not None and keys is None and not (Path(folder) / KEYS).exists():
        raise StoreError(
            f"the keys of {folder} lie apart from it, in {one_line(apart)}: name them with --keys"
        )
    if keys is not None and not Path(keys).exists():
        raise StoreError(f"there are no keys in {keys}: name the file that the run was begun with")


def client_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What clients are called, as far as their sealed names can be opened; who was erased has none."""
    sealed, keyring = db.client_names(), keyring_of(folder, keys)
    found = {}
    for client, name in sealed.items():
        if keyring is not None and keyring.holds(client):
            with suppress(StoreError, UnicodeDecodeError):
                found[client] = one_line(keyring.open(client, name, b"name").decode())
    return found


def named_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What the clients of a run are called, as far as the keys are there."""
    with Database.open(database(folder), readonly=True) as db:
        return client_names(db, folder, keys)


def number_of(folder: str | Path, who: str, keys: str | Path | None = None) -> int:
    """The number of a client that is called so, or has that number; who cannot be known is refused."""
    with Database.open(database(folder), readonly=True) as db:
        sealed, names = db.client_names(), client_names(db, folder, keys)
        gone = {c for e in db.entries(kind="erased") for c in removed_in(e)["whole"]}
        last = db.last("checkpoint")
    for client, name in names.items():
        if name == who:
            return client
    there: set[int] = set()
    with suppress(StoreError):  # one that is swept away meanwhile: then the run itself says who is not there
        there = (
            set() if last is None else set(Checkpoint.read(Path(folder), read_named(last.body).state).marks)
        )
    if who.isascii() and who.isdigit() and len(who) < 19:
        number = int(who)
        if number in gone:
            raise RequestError(f"client {number} was erased from {folder}: there is nothing left of it")
        if not there or number in there:
            return number
        raise RequestError(f"there is no client {number} in {folder}: it has {_span(there)}")
    if sealed and not names:
        raise RequestError(
            f"who {who!r} is cannot be known without the keys: name their file with --keys, or give a number"
        )
    if not sealed:
        raise RequestError(f"clients of {folder} have no names: give a number, such as 3, not {who!r}")
    raise RequestError(f"there is no client {who!r} in {folder}.{nearest(who, names.values())}")


def keyring_of(folder: str | Path, keys: str | Path | None) -> Keyring | None:
    """The keys, where they are there and can be read: without them there are numbers."""
    path = Path(folder) / KEYS if keys is None else Path(keys)
    if keys is not None and not path.exists():
        raise StoreError(f"there are no keys in {path}: name the file that the run was begun with")
    return Keyring(path) if os.path.lexists(path) else None


def begun_in(db: Database, folder: str | Path) -> tuple[Mapping[str, Any], str]:
    entry = next(iter(db.entries(kind="begun")), None)
    if entry is None:
        raise StoreError(f"{folder}: nothing was begun there yet: remove it, and begin again")
    return table_in(read_plain(entry.body)), entry.at


def _span(numbers: set[int]) -> str:
    listed = sorted(numbers)
    if len(listed) > 15:
        return f"{len(listed)} clients from {listed[0]} to {listed[-1]}"
    return f"these: {', '.join(map(str, listed))}"


def table_in(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StoreError("an entry of the log is not what it should be: it was changed")
    return value


def removed_in(entry: Entry) -> Mapping[str, Any]:
    """What an entry of the log says of an erasure that reached the disk, if it is one."""
    found = table_in(read_plain(entry.body))
    counts = ("checkpoints", "packs", "bytes", "tensors", "keys", "truncated")
    lists = {"whole": int, "parts": int, "requests": int, "results": str}
    if all(isinstance(found.get(name), int) for name in counts) and all(
        isinstance(found.get(name), list) and all(isinstance(one, kind) for one in found[name])
        for name, kind in lists.items()
    ):
        return found
    raise StoreError("an entry of the log is no erasure of ours: it was changed")


def one_line(text: object) -> str:
    """Without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:2000])
