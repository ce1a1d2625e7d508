"""Who is who in a run's folder: its clients' sealed names, their numbers, its keys."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unknot.core.errors import RequestError, StoreError, UnknotError, nearest
from unknot.core.ids import one_way
from unknot.core.registry import names_code
from unknot.store import files
from unknot.store.database import Database
from unknot.store.entries import read_begun, read_named, read_plain
from unknot.store.keyring import LOCK, KeyLock, Keyring, check_installed, place_of
from unknot.store.lock import check_lock, holder
from unknot.store.rows import Entry, is_count
from unknot.store.sealed import IDS, MARKS, opened
from unknot.store.shown import one_line

DATABASE, KEYS = "run.db", "keys"
RECORD = "record.json"
"""What every run leaves at its end, kept or not."""
EMPTIED = "emptied"
"""The log's entry of a write-ahead log that a reader kept from being emptied when an erasure was done."""


class AlreadyErased(RequestError):
    """Who is named was erased from the run before."""


def database(folder: str | Path) -> Path:
    """Where the database of the run in a folder is."""
    path = Path(folder) / DATABASE
    if os.path.lexists(path):
        return path
    if (Path(folder) / RECORD).exists():
        raise StoreError(
            f"{folder} holds results, but no run was kept there (--no-keep): name another folder"
        )
    raise StoreError(f"{folder} holds no run: name the folder of one (unknot runs shows them)")


def begun(folder: str | Path) -> Mapping[str, Any]:
    """What was noted when the run was begun."""
    with Database.open(database(folder), readonly=True) as db:
        return begun_in(db, folder)[0]


def again(
    noted: Mapping[str, Any], folder: str | Path, keys: str | Path | None = None, options: str = ""
) -> str:
    """How a run is gone on with, by what was `noted` at its beginning: a command, or what to do in Python.

    `options` are more of the command's. Code that the run names may be anybody's: whoever says that it may
    be executed is to have seen what it is.
    """
    table = noted.get("table")
    if not isinstance(table, Mapping):
        store = one_line(repr(str(folder)))
        return f"build the federation again in Python, unknot.simulate(..., store={store}), and call resume()"
    apart = noted.get("keys") if keys is None else keys
    more = "" if apart is None else f" --keys {shlex.quote(one_line(apart))}"
    more += f" {options}" if options else ""
    if (code := _code_in(table)) is not None:
        more += f" --own-code (if {one_line(repr(code), 200)}, which it names, is yours)"
    return f"unknot resume {shlex.quote(str(folder))}{more}"


def _code_in(table: Mapping[str, Any]) -> str | None:
    """The first ``package.module:Thing`` that a section of an experiment names."""
    values = deque[object](value for value in table.values() if isinstance(value, Mapping))
    while values:
        value = values.popleft()
        if isinstance(value, str) and names_code(value):
            return value
        if isinstance(value, Mapping | list | tuple):
            values += value.values() if isinstance(value, Mapping) else value
    return None


def again_in(folder: str | Path, keys: str | Path | None = None, options: str = "") -> str:
    """The same of the run in a folder."""
    return again(begun(folder), folder, keys, options)


def over_in(db: Database) -> bool:
    """Whether a run is over, and whoever may still hold it is idle."""
    last, ended = db.last("checkpoint"), db.last("ended")
    return (
        last is not None
        and ended is not None
        and ended.number > last.number
        and bool(read_named(last.body).stopped)
    )


def broken_off(noted: Mapping[str, Any], folder: str | Path) -> str:
    """What is said of a run that has no checkpoint."""
    how = "with the same unknot run"
    if not isinstance(noted.get("table"), Mapping):
        how = f"in Python, unknot.simulate(..., store={one_line(repr(str(folder)))}), and call run(...)"
    return f"{folder} was broken off before its first checkpoint: begin it again {how}"


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


def unfinished(db: Database) -> Entry | None:
    """What the log says is to be removed from the disk, where it does not say that it was."""
    last, ended = db.last("scrubbing"), db.last("erased")
    return last if last is not None and (ended is None or ended.number < last.number) else None


def check_whole(folder: str | Path, keys: str | Path | None) -> None:
    """Whether the log of a run fits together and its keys are there, before what it names is opened."""
    with Database.open(database(folder), readonly=True) as db:
        db.verify()
        check_not_older(db, own_keyring(db, folder, keys), folder)


def client_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What clients are called, as far as their sealed names can be opened; who was erased has none."""
    sealed, keyring = db.client_names(), keyring_of(folder, keys)
    found = {}
    for client, name in sealed.items():
        if keyring.holds(client):
            check_installed()
            with suppress(StoreError, UnicodeDecodeError):
                found[client] = keyring.open(client, name, b"name").decode()
    return found


def shown_names(db: Database, folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """The same to be shown, as they are typed; a run goes by the names themselves."""
    return {client: typed(one_line(name)) for client, name in client_names(db, folder, keys).items()}


def typed(name: str) -> str:
    """How a name is given to a command: one that begins with ``#`` has one more, for ``#3`` is a number."""
    return f"#{name}" if name.startswith("#") else name


def named_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """What the clients of a run are called, as far as the keys are there."""
    with Database.open(database(folder), readonly=True) as db:
        return client_names(db, folder, keys)


def shown_in(folder: str | Path, keys: str | Path | None = None) -> dict[int, str]:
    """The same to be shown: see `shown_names`."""
    with Database.open(database(folder), readonly=True) as db:
        return shown_names(db, folder, keys)


def number_of(folder: str | Path, who: str, keys: str | Path | None = None) -> int:
    """The number of a client that is called so, or that ``#3`` gives; who cannot be known is refused.

    Who is called ``#3`` is written ``##3`` (see `typed`): what is a number must not depend on who is still
    there. Where clients have names, a plain number is a name as well: nobody is taken for somebody else.
    """
    with Database.open(database(folder), readonly=True) as db:
        sealed, names = db.client_names(), client_names(db, folder, keys)
        check_not_older(db, keyring_of(folder, keys), folder)
        named = bool(sealed or begun_in(db, folder)[0].get("named"))
        gone, there = erased_in(db), set(db.sealed(MARKS))
    for client, name in names.items():
        if one_way(typed(name)) == one_way(who):
            return client
    digits = who.removeprefix("#")
    if digits.isascii() and digits.isdigit() and len(digits) < 19 and (who != digits or not named):
        number = int(digits)
        if number in gone:
            raise AlreadyErased(f"client {number} was erased from {folder}: there is nothing left of it")
        if not there or number in there:
            return number
        raise RequestError(f"there is no client {number} in {folder}: it has {_span(there)}")
    if not named:
        raise RequestError(f"clients of {folder} have no names: give a number, such as 3, not {who!r}")
    if sealed and not names:
        raise RequestError(
            f"who {who!r} is in {folder} cannot be said, for names are sealed: add --keys FILE, or give the "
            "number that the client has in this run, written '#N'"
        )
    more = f"; a number is written '#{digits}'" if digits.isascii() and digits.isdigit() else ""
    if who.startswith("#"):
        more = "; a name that begins with '#' is written with one more '#' in front"
    raise RequestError(
        f"there is no client {who!r} in {folder} (never there, or erased: names of erased clients are not "
        f"kept){more}.{nearest(who, (typed(one_line(name)) for name in names.values()))}"
    )


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
        apart += "them with --keys"
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
        raise StoreError(
            f"{path} has the keys of another run (mark {found.mark.hex()}), not those of {folder} (mark "
            f"{known}); {apart or 'name its own with --keys, or put them back from their backup'}"
        )
    old = {c for written, clients in renewed if found.written < written for c in clients if found.holds(c)}
    if old:
        raise StoreError(
            f"{path} is a copy from before samples were erased (of {_span(old)}), who have had other keys "
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
            f"{folder} is a copy from before samples were erased (of {_span(old)}), and {keyring.path} is "
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


def begun_in(db: Database, folder: str | Path) -> tuple[Mapping[str, Any], str]:
    entry = db.last("begun")  # there are more where a beginning was broken off
    if entry is None:
        raise StoreError(f"{folder}: nothing was begun there yet: begin it again, in the same folder")
    return read_begun(entry.body), entry.at


def erased_in(db: Database) -> set[int]:
    """The numbers of all clients that were erased, on the disk too."""
    return {client for entry in db.entries(kind="erased") for client in removed_in(entry)["whole"]}


def emptied(db: Database, request: int | None = None) -> bool:
    """Whether what an erasure took out of the database has gone from its write-ahead log too.

    The last erasure, or the one that a `request` asked for.
    """
    clean = True
    for entry in db.entries(kind=("erased", EMPTIED)):
        if entry.kind == EMPTIED or removed_in(entry)["truncated"]:
            clean = True
        elif request is None or request in removed_in(entry)["requests"]:
            clean = False
    return clean


def _renewed_in(db: Database) -> Iterator[tuple[int, list[int]]]:
    """How often the keys had been written once these clients, whose samples were erased, had new ones."""
    for entry in db.entries(kind="erased"):
        found = removed_in(entry)
        yield found["keys_written"], found["parts"]


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
    counts = ("checkpoints", "packs", "bytes", "tensors", "keys", "keys_written")
    numbers = ("whole", "parts", "requests", "known")
    if (
        all(is_count(found.get(name)) for name in counts)
        and type(found.get("truncated")) is bool
        and isinstance(found.get("approximate"), str)
        and isinstance(found.get("guarantee"), str)
        and all(isinstance(found.get(name), list) and all(map(is_count, found[name])) for name in numbers)
        and all(isinstance(found.get(name), list) for name in ("results", "settings"))
        and all(isinstance(name, str) for name in (*found["results"], *found["settings"]))
    ):
        return found
    raise StoreError("an entry of the log is no erasure of ours: it was changed")
