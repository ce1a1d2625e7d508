"""What the log of a run says of it: how it was begun, how it is gone on with, what was erased."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.commands import command
from unknot.core.errors import StoreError
from unknot.core.registry import names_code
from unknot.store.database import Database
from unknot.store.entries import read_begun, read_named, read_plain, resumed_in
from unknot.store.lock import holder
from unknot.store.rows import Entry, is_count
from unknot.store.shown import one_line

DATABASE, KEYS = "run.db", "keys"
BESIDE = (KEYS, "state", "weights")
"""What lies beside the database of a run, and in no folder of results alone."""
RECORD = "record.json"
"""What every run leaves at its end, kept or not."""
GOING, RESTING = "going", "stopped"
"""The log's entries of a process that goes on with a run, and of one that does not for now."""
EMPTIED = "emptied"
"""The log's entry of a write-ahead log that a reader kept from being emptied when an erasure was done."""


def database(folder: str | Path) -> Path:
    """Where the database of the run in a folder is."""
    path = Path(folder) / DATABASE
    if os.path.lexists(path):
        return path
    if any(os.path.lexists(Path(folder) / name) for name in BESIDE):
        raise StoreError(missing(folder))
    if (Path(folder) / RECORD).exists():
        raise StoreError(
            f"{folder} holds results, but no run was kept there (--no-keep): name another folder"
        )
    raise StoreError(f"{folder} holds no run: name the folder of one (unknot runs shows them)")


def missing(folder: str | Path) -> str:
    """What is said of a folder that has all of a run but its database."""
    left = [name for name in BESIDE if os.path.lexists(Path(folder) / name)]
    return (
        f"{Path(folder) / DATABASE} is missing, though other parts of a run are there ({', '.join(left)}): "
        "take it from a backup; if no run was kept there, name another folder"
    )


def begun(folder: str | Path) -> Mapping[str, Any]:
    """What was noted when the run was begun."""
    with Database.open(database(folder), readonly=True) as db:
        return begun_in(db, folder)[0]


def begun_in(db: Database, folder: str | Path) -> tuple[Mapping[str, Any], str]:
    entry = db.last("begun")  # there are more where a beginning was broken off
    if entry is None:
        raise StoreError(f"{folder}: nothing was begun there yet: begin it again, in the same folder")
    return read_begun(entry.body), entry.at


def again(
    noted: Mapping[str, Any], folder: str | Path, keys: str | Path | None = None, options: str = ""
) -> str:
    """How a run is gone on with, by what was `noted` at its beginning: a command, or what to do in Python.

    `options` are more of the command's. Code that the run names may be anybody's: whoever says that it may
    be executed is to have seen what it is.
    """
    table = noted.get("table")
    if not isinstance(table, Mapping):
        store = _store(noted, folder, keys)
        return f"build the federation again in Python, unknot.simulate(..., store={store}), and call resume()"
    apart = noted.get("keys") if keys is None else keys
    more = "" if apart is None else f" --keys {shlex.quote(one_line(apart))}"
    more += f" {options}" if options else ""
    if (code := _code_in(table)) is not None:
        more += f" --own-code (if {one_line(repr(code), 200)}, which it names, is yours)"
    return f"{command('resume', folder)}{more}"


def _store(noted: Mapping[str, Any], folder: str | Path, keys: str | Path | None = None) -> str:
    """What Python is told of a run's folder, and of keys that lie apart from it."""
    place, apart = one_line(repr(str(folder))), noted.get("keys") if keys is None else keys
    return place if apart is None else f"unknot.Store({place}, keys={one_line(repr(str(apart)))})"


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


def ended_in(db: Database) -> bool:
    """Whether a run has come to an end, and who asked was given it."""
    last, ended = db.last("checkpoint"), db.last("ended")
    return (
        last is not None
        and ended is not None
        and ended.number > last.number
        and bool(read_named(last.body).stopped)
    )


def over_in(db: Database) -> bool:
    """Whether a run is over, and whoever may still hold it is idle; not while its end is computed again."""
    ended, resumed = db.last("ended"), db.last("resumed")
    if ended is None or not ended_in(db):
        return False
    return resumed is None or resumed.number < ended.number or resumed_in(resumed).over


def idle_in(db: Database, folder: str | Path) -> bool:
    """Whether whoever holds a run does nothing with it: it has ended, or was taken and not gone on with."""
    going, since = db.last(GOING), _since(db, folder)
    if going is not None and going.number > since.number:
        return False
    held = holder(folder)
    return over_in(db) or held is None or held.since <= since.at  # else it is being taken up just now


def by_command(db: Database, folder: str | Path) -> bool:
    """Whether a command holds a run: when that is over, it is about to end, as a notebook is not."""
    going, since = db.last(GOING), _since(db, folder, ("begun", "resumed"))
    return (
        going is not None
        and going.number > since.number
        and table_in(read_plain(going.body)).get("command") is True
    )


def _since(
    db: Database, folder: str | Path, kinds: Sequence[str] = ("begun", "resumed", "ended", RESTING)
) -> Entry:
    """The last entry of one who took a run, or came to its end, or rests."""
    begun_in(db, folder)
    return max((one for kind in kinds if (one := db.last(kind)) is not None), key=lambda one: one.number)


def held_idle(pid: int, folder: str | Path, command: bool) -> str:
    """What is said of a run that is held and rests: a command is at its end, a notebook may stay."""
    if command:
        return f"process {pid} has come to the end of {folder}, and writes its results: try again in a moment"
    return (
        f"process {pid} holds {folder} and is idle: if it is about to end, try again in a moment; else go on "
        "with it there (fed.run or fed.resume), or let go of it (fed.close())"
    )


def broken_off(noted: Mapping[str, Any], folder: str | Path) -> str:
    """What is said of a run that has no checkpoint."""
    how = "with the same unknot run"
    if not isinstance(noted.get("table"), Mapping):
        how = f"in Python, unknot.simulate(..., store={_store(noted, folder)}), and call run(...)"
    return f"{folder} was broken off before its first checkpoint: begin it again {how}"


def unfinished(db: Database) -> Entry | None:
    """What the log says is to be removed from the disk, where it does not say that it was."""
    last, ended = db.last("scrubbing"), db.last("erased")
    return last if last is not None and (ended is None or ended.number < last.number) else None


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
