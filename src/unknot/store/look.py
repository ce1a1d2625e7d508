"""A run's folder, looked at without running it: what it is, where it stands, what was asked, what it keeps.

Nothing here trusts what it reads.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, StoreError, UnknotError
from unknot.core.requests import numbered
from unknot.store.checkpoint import STATE, Checkpoint, Named, Serves
from unknot.store.database import Database
from unknot.store.entries import named_in, orders_of, read_named, read_plain, resumed_in, served_in
from unknot.store.erasing import EACH, stays
from unknot.store.files import inside
from unknot.store.lock import Holder, holder
from unknot.store.misfit import Misfit, misfit
from unknot.store.naming import client_names, shown_names
from unknot.store.noted import (
    DATABASE,
    EMPTIED,
    KEYS,
    RESTING,
    again,
    begun_in,
    broken_off,
    by_command,
    database,
    emptied,
    idle_in,
    missing,
    removed_in,
    table_in,
)
from unknot.store.own_keys import keyring_of
from unknot.store.results import RESULTS, changed_in
from unknot.store.rows import REFUSED, SERVED
from unknot.store.shown import one_line
from unknot.store.taking import lost_run
from unknot.store.vault import WEIGHTS
from unknot.store.wanted import Wanted, of_file, of_inbox, refusal_in
from unknot.store.words import PAUSED, PAUSING, WORDS, heard_since, standing

RUNNING, STOPPED, FINISHED = "running", "stopped", "finished"
WHOLE = "whole"
RARE = ("resumed", RESTING, "erased", EMPTIED, "ended", "refused")
"""Entries of the log of which there are few."""
TRIES = 3
_STATE = re.compile(r"[0-9a-f]{64}\.state")
SOME = 256
"""So many files of checkpoints are looked at: a run has two or three."""
MOST = 1 << 28
"""So many bytes of a checkpoint are read to look at it: nobody has checked the folder that it lies in."""


@dataclass(frozen=True)
class Look:
    """What a folder says of its run."""

    folder: str
    name: str
    method: str
    state: str
    """Finished, or stopped, also while a process holds it that does nothing with it."""
    paused: bool
    pausing: bool
    """Whether it was told to pause, and has not taken that up yet."""
    holder: Holder | None
    command: bool
    """Whether that is a command, which ends when the run does, as a notebook does not."""
    rounds: int
    time: float
    """Simulated seconds."""
    clients: int
    """When it was begun."""
    apart: bool
    """Whether its keys lie elsewhere."""
    again: str | None
    """How it is gone on with: a command, or what to do in Python; None where nobody can, as it is."""
    keys_wrong: str
    """What is wrong between it and its keys; nothing where nothing is, or where that cannot be told."""
    unreadable: str
    """Why there is no checkpoint to go on from; nothing where there is one, as far as was looked."""
    begun: str
    """When (UTC)."""
    kept: str | None
    """When its last checkpoint was written (UTC)."""
    stopped: str
    """Why it is over; nothing while it is not."""
    model: str | None
    """The digest of what is served: at the end, or, of a run that is not over, at its last checkpoint."""
    lineage: list[str] | None
    model_unknown: str
    """Why there is no `model`; nothing where there is one."""
    requests: list[Wanted]
    erased: list[dict[str, Any]]
    """What was removed from the disk, an erasure each, with when; and what stays, and why."""
    sizes: dict[str, int] = field(default_factory=dict)
    """What is kept, in bytes."""
    resumed: int = 0
    """How often it was gone on with, and took a step that was kept: to refuse a request is none."""
    changed: list[str] = field(default_factory=list)
    """Which of its results are not as the run left them; none where that was not looked at."""
    log: str | None = None
    """"whole" where every entry of the log fits the one before it, else what is wrong; None: not looked."""

    @property
    def idle(self) -> bool:
        """Whether a process holds it that does nothing with it."""
        return self.state != RUNNING and self.holder is not None

    @property
    def settled(self) -> bool:
        """Whether it is over, and nothing was asked from outside that is still to be served."""
        return self.state == FINISHED and not self.unserved

    @property
    def unserved(self) -> list[Wanted]:
        """What was asked from outside, and is still to be served."""
        asked = [one for one in self.requests if one.number is not None and one.kind not in WORDS]
        return [one for one in asked if one.state not in (SERVED, REFUSED)]


def look(
    folder: str | Path, keys: str | Path | None = None, *, for_people: bool = True, through: bool = False
) -> Look:
    """All that can be said of a run without running it; names where there are `keys` to open them.

    The whole log is gone `through` on demand: what is wrong there is told, and not raised.

    `for_people` they are as they are typed into a command, and steer no terminal; else as they are. Its last
    checkpoint may be gone before it is read, where a process goes on with the run: then again.
    """
    try:
        for _ in range(TRIES):
            found = _look(folder, keys, shown_names if for_people else client_names)
            if not found.model_unknown or found.holder is None:
                break
        return _through(found, keys) if through else found
    except UnknotError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise StoreError(
            f"{folder}: its database says what no run writes ({type(error).__name__}): it was changed; take "
            "it from a backup"
        ) from None


def _look(
    folder: str | Path,
    keys: str | Path | None,
    called: Callable[[Database, str | Path, str | Path | None], dict[int, str]],
) -> Look:
    held = holder(folder) if (Path(folder) / DATABASE).exists() else None
    with Database.open(database(folder), readonly=True) as db:
        noted, when = begun_in(db, folder)
        names = called(db, folder, keys)
        asked = db.asked()
        last, rare = db.last("checkpoint"), list(db.entries(kind=RARE))  # once through a long log
        named = None if last is None else read_named(last.body)
        table = table_in(noted.get("table") or {})
        served = served_in(db) if asked or table.get("request") else []
        since = max((entry.number for entry in rare if entry.kind in ("resumed", RESTING)), default=0)
        clean, idle, command = emptied(db), idle_in(db, folder), by_command(db, folder)
        word = standing(asked, heard_since(db, since)) if held else ""
        odd = misfit(db, folder, keys) if held is None else Misfit()
        lost = "" if held else nothing_kept(db, Path(folder), noted)
    steps = [table_in(read_plain(entry.body)).get("step") for entry in rare if entry.kind == "resumed"]
    steps += [] if named is None else [named.step]
    gone = [(removed_in(entry), entry.at) for entry in rare if entry.kind == "erased"]
    if clean:  # then so it is of those before it
        gone = [({**one, "truncated": True}, at) for one, at in gone]
    ended = next((entry for entry in reversed(rare) if entry.kind == "ended"), None)
    over_at = 0 if last is None else last.number
    over = ended is not None and last is not None and ended.number > last.number
    told = table_in(read_plain(ended.body)) if over and ended is not None else {}
    if not told:
        serves = serves_at(Path(folder), named)
        lines = None if serves.lineage is None else serves.lineage.describe(numbered)
        told = {"model": serves.model, "lineage": lines, "unknown": serves.unknown}
    orders = orders_of(asked, served)
    why = dict(refusal_in(entry) for entry in rare if entry.kind == "refused")
    method = noted.get("method", "–")
    taken = next((entry for entry in reversed(rare) if entry.kind == "resumed"), None)
    lost_end = taken is not None and taken.number > over_at and not resumed_in(taken).over
    done = "" if named is None or lost_end else named.stopped
    keyring = keyring_of(folder, keys)
    return Look(
        folder=str(folder),
        name=one_line(table.get("name", Path(folder).name)),
        method=one_line(method),
        state=RUNNING if held and not idle else FINISHED if done else STOPPED,
        paused=word == PAUSED,
        pausing=word == PAUSING,
        holder=held,
        command=held is not None and command,
        rounds=0 if named is None else named.rounds,
        time=0.0 if named is None else named.time,
        clients=noted.get("clients", 0),
        apart=noted.get("keys") is not None,
        again=None if odd.refused or lost else again(noted, folder, keys),
        keys_wrong=odd.why,
        unreadable=lost,
        begun=when,
        kept=None if last is None else last.at,
        stopped=done,
        model=None if told["model"] is None else one_line(told["model"]),
        lineage=None if told["lineage"] is None else _called(told["lineage"], names),
        model_unknown=one_line(told.get("unknown", "")),
        requests=[
            *of_file(table, when, served, set(orders.values()), names),
            *(
                of_inbox(one, names, keyring, why.get(one.number, ""), orders.get(one.number))
                for one in asked
            ),
        ],
        erased=[_removed(one, at, names, noted.get(EACH)) for one, at in gone],
        sizes=sizes(folder, keys),
        resumed=sum(before != after for before, after in pairwise(steps)),
    )


def _through(found: Look, keys: str | Path | None) -> Look:
    """With whether the log of a run fits together, or what is wrong: then it is not gone on with.

    Nor where none of its checkpoints can be read.
    """
    try:
        with Database.open(database(found.folder), readonly=True) as db:
            db.verify()
            keyring = keyring_of(found.folder, keys)
            found = replace(found, changed=changed_in(db, keyring, Path(found.folder)))
            lost = found.unreadable
            if found.holder is None and not lost:
                lost = _nothing_whole(db, Path(found.folder))
    except StoreError as error:
        return replace(found, log=one_line(error), again=found.again if found.holder else None)
    return replace(found, log=WHOLE, unreadable=lost, again=None if lost else found.again)


def nothing_kept(db: Database, folder: Path, noted: Mapping[str, Any]) -> str:
    """Why there is no checkpoint of a run that nobody holds, by the names of files alone."""
    if db.last("checkpoint") is None:
        return one_line(broken_off(noted, folder))
    try:
        os.scandir(folder / STATE).close()
    except FileNotFoundError:
        pass
    except OSError as error:
        return one_line(f"{folder / STATE} cannot be looked into ({error.strerror})")
    if _kept_in(db, folder):
        return ""
    return one_line(f"its checkpoints are not in {folder / STATE}: take state/ from a backup")


def _kept_in(db: Database, folder: Path) -> list[Named]:
    """The checkpoints whose files are there."""
    names = (path.name for path in _files(folder / STATE))
    states = [name.removesuffix(".state") for name in names if _STATE.fullmatch(name)]
    return named_in(db, states[:SOME])


def _nothing_whole(db: Database, folder: Path) -> str:
    """The same by what is in them; those that are too long to be looked at are taken for whole."""
    why: list[str] = []
    for named in _kept_in(db, folder):
        path = inside(folder / STATE, f"{named.state}.state")
        if _size(path) > MOST:
            return ""
        try:
            Checkpoint.read(folder, named.state)
            return ""
        except StoreError as error:
            why.append(str(error))
    return one_line(f"no checkpoint can be read: {'; '.join(why)}; take state/ from a backup")


def serves_at(folder: Path, named: Named | None) -> Serves:
    """What would have been served at a checkpoint, as it says itself: no code of the run's, and no data."""
    if named is None:
        return Serves(None, None, "nothing was kept yet")
    try:
        return Checkpoint.read(folder, named.state, MOST).serves
    except StoreError as error:
        return Serves(None, None, f"its last checkpoint cannot be read: {error}")


def runs(folder: str | Path, deep: int = 4) -> list[tuple[Path, str]]:
    """The folders of runs in and below a folder, a few levels deep; no symbolic link is followed.

    With each that has lost its database, or may not be looked into and may hold runs, why that is; else with
    nothing.
    """
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise ConfigError(f"{place} is a file: name the folder in which runs are kept")
    if not place.is_dir():
        raise ConfigError(f"there is no folder {place}")
    return list(_below(place, deep))


def _below(place: Path, deep: int) -> Iterator[tuple[Path, str]]:
    """The same; what is taken away meanwhile is left out."""
    entries: list[os.DirEntry[str]] = []
    try:
        if _is_there(place / DATABASE):
            yield place, ""
        elif lost_run(place):
            yield place, missing(place)
        entries = sorted(os.scandir(place), key=lambda one: one.name) if deep else []
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield place, f"it cannot be looked into ({error.strerror}), and may hold runs"
    for entry in entries:
        with suppress(OSError):
            own = entry.name in (STATE, WEIGHTS) and _is_there(place / DATABASE)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and not own:
                yield from _below(Path(entry.path), deep - 1)


def _is_there(path: Path) -> bool:
    """Whether a file is; raises where one may not know."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def sizes(folder: str | Path, keys: str | Path | None = None) -> dict[str, int]:
    """What a run keeps, in bytes: its checkpoints, weights, database, keys, and what its end left."""
    place = Path(folder)
    parts = {
        "checkpoints": _files(place / STATE),
        "weights": _files(place / WEIGHTS),
        "database": [place / f"{DATABASE}{end}" for end in ("", "-wal", "-shm")],
        "keys": [Path(keys) if keys is not None else place / KEYS],
        "results": [place / name for name in RESULTS],
    }
    return {what: sum(map(_size, paths)) for what, paths in parts.items()}


def _removed(found: Mapping[str, Any], at: str, names: Mapping[int, str], each: object) -> dict[str, Any]:
    """What an erasure took from the disk, and what stays; who is still there is called by name."""

    def label(client: int) -> str:
        return names.get(client, numbered(client))

    called = list(map(label, found["parts"]))
    left = [one_line(line) for line in stays(found, each, label)]
    return {**found, "at": at, "parts_called": called, "stays": left}


def _called(lineage: object, names: Mapping[int, str]) -> list[str]:
    """``client 3 (2 units)`` by its name, where there is one."""
    found = []
    for line in lineage if isinstance(lineage, list | tuple) else ():
        word, _, rest = str(line).removeprefix("client ").partition(" ")
        name = names.get(int(word)) if word.isdigit() else None
        found.append(one_line(line) if name is None else f"{name} {rest}".rstrip())
    return found


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [Path(entry.path) for entry in os.scandir(folder)]
    return []


def _size(path: Path) -> int:
    with suppress(OSError):
        found = path.stat(follow_symlinks=False)
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0
