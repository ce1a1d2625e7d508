"""Is a federation that was built anew the one that was kept, and what is other than it was?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.errors import StoreError
from unknot.federation.describe import plain as settings
from unknot.federation.environment import environment
from unknot.store.checkpoint import STATE, Checkpoint, Named
from unknot.store.database import Database
from unknot.store.entries import read_begun
from unknot.store.files import told

if TYPE_CHECKING:
    from unknot.federation import Federation


def check_setup(fed: Federation, now: Mapping[str, Any], folder: Path) -> None:
    """Raise `StoreError` if the federation was built otherwise than the one that was kept."""
    assert fed.history is not None
    before = fed.history.setup
    for part in ("method", "recipe", "pace", "aggregate", "clock", "select", "seed", "metrics", "model"):
        if before.get(part) != now[part]:
            raise StoreError(
                f"{folder}: the run was begun with {part} {before.get(part)}, and this federation "
                f"has {now[part]}: build it as it was"
            )


def differences(fed: Federation, db: Database, folder: Path) -> list[str]:
    begun = db.last("begun")
    if begun is None:
        raise StoreError(f"{folder}: the log does not begin with a run")
    before, now = read_begun(begun.body).get("environment"), settings(environment(fed.engine))
    if not isinstance(before, dict):
        raise StoreError(f"{folder}: the log does not say where the run was begun")
    watched = ("unknot", "torch", "numpy", "cpu", "engine")
    was = {name: str(before.get(name, "unknown")).encode("unicode_escape").decode() for name in watched}
    return [
        f"{name} is {now[name]}, and was {was[name]}: bits may differ from here on"
        for name in watched
        if now[name] != before.get(name) and name != "engine"
    ]


def lost_end(db: Database, folder: Path, named: Iterable[Named]) -> list[str]:
    """Whether the log has lost its end: then a checkpoint is there that was written after later entries.

    One that the log names came before its entry there; so only those are read that it does not name.
    """
    known, last = {f"{one.state}.state" for one in named}, db.head()[0]
    with told("look through", folder / STATE):
        others = [name for name in sorted(os.listdir(folder / STATE)) if name not in known]
    for name in others:
        with suppress(StoreError):  # half written, or none of ours
            number, found = Checkpoint.read(folder, name.removesuffix(".state")).head
            there = next(iter(db.entries(number - 1)), None) if number else None
            if number and (there is None or (there.number, there.hash) != (number, found)):
                return [
                    f"{folder}: the log has lost its end (it was written up to entry {number} at least, and "
                    f"ends at {last}): what happened since is computed again; a request that unknot show "
                    "does not show must be asked again"
                ]
    return []
