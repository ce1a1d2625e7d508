"""Is a federation that was built anew the one that was kept, and what is other than it was?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unknot.core.errors import StoreError
from unknot.federation.describe import plain as settings
from unknot.federation.environment import environment
from unknot.store.database import Database
from unknot.store.entries import read_begun

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
