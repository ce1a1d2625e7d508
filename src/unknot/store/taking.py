"""Which folders a new run may take: one that is new, is empty, or is a run's already.

Asked before anything there is changed. Whatever else lies in a folder is somebody's, also where it is called
as files of a run are; a run would close the folder to others, and remove what has such a name.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from unknot.core.errors import StoreError
from unknot.store.access import application_of
from unknot.store.checkpoint import STATE
from unknot.store.connection import APPLICATION
from unknot.store.files import check_plain, is_named, read_whole, told, whole_name
from unknot.store.keyring import LOCK
from unknot.store.lock import is_lock, was_held
from unknot.store.noted import DATABASE, KEYS, RECORD, missing
from unknot.store.results import RESULTS
from unknot.store.vault import WEIGHTS

_LOCKS = ("lock", f"{LOCK}{KEYS}")
_SHOWN = 3
_LONGEST = 1 << 30  # bytes of a record


def holds_run(folder: str | Path) -> bool:
    """Whether a folder is a run's: its database says so or, where that is damaged, the lock beside it.

    A database that another program made is no run; what is there for one and is no file is refused.
    """
    path = Path(folder) / DATABASE
    if not os.path.lexists(path):
        return False
    check_plain(path)
    found = application_of(path)
    return was_held(Path(folder)) if found is None else found == APPLICATION


def lost_run(folder: str | Path) -> bool:
    """Whether a folder is a run's whose database is not there: its checkpoints are, or its keys and its lock.

    Weights alone may be anybody's: others name files by their digests, too.
    """
    place = Path(folder)
    if os.path.lexists(place / DATABASE):
        return False
    with suppress(OSError):
        if not (place / STATE).is_symlink() and any(map(is_named, os.listdir(place / STATE))):
            return True
    with suppress(StoreError):  # what is called as a lock may be anything
        return os.path.lexists(place / KEYS) and was_held(place)
    return False


def check_free(folder: str | Path, *, results: bool = False, own: Collection[str] = ()) -> None:
    """Raise unless a run may be begun there.

    What an earlier attempt left before it had a database, or a run that was taken away, is in nobody's way.
    `results` of a run that was not kept may be written over, where its record is there, which comes last;
    `own` are files that the new run itself writes.
    """
    place = Path(folder)
    if not place.is_dir() or holds_run(place):
        return
    if lost_run(place):
        raise StoreError(
            f"{missing(place)}. To begin a run here all the same, remove {place} yourself, with all that is "
            "left of that run"
        )
    with told("look through", place):
        over = RESULTS if results and _is_record(place / RECORD) else ()
        others = [name for name in _others(place, over) if name not in own]
    if others:
        shown = ", ".join(map(repr, others[:_SHOWN]))
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise StoreError(
            f"{place} has other things in it ({shown}{more}), and a run's folder is the run's alone: name a "
            f"folder of its own, such as {place / 'NAME'}"
        )


def _is_record(path: Path) -> bool:
    """Whether a file is the record of a run, and not somebody else's that is called so."""
    try:
        found = json.loads(read_whole(path, _LONGEST))
    except (StoreError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= {"method", "guarantee", "rounds", "environment"}


def _others(place: Path, over: Collection[str]) -> Iterator[str]:
    """What lies in a folder without a run, and was not left there by one."""
    for name in sorted(os.listdir(place)):
        mode = os.lstat(place / name).st_mode
        if stat.S_ISDIR(mode) and name in (STATE, WEIGHTS):
            yield from (f"{name}/{inner}" for inner in sorted(os.listdir(place / name)))
        elif not stat.S_ISREG(mode) or not (
            whole_name(name) in (DATABASE, *RESULTS)
            or (name in _LOCKS and is_lock(place / name))
            or name in over
        ):
            yield name
