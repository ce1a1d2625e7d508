"""Whether a run and its keys fit together, told to who looks at it; who goes on with it is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from unknot.core.errors import StoreError
from unknot.store.database import Database
from unknot.store.keyring import is_installed
from unknot.store.noted import KEYS, begun_in
from unknot.store.older import check_named, told, unknown
from unknot.store.own_keys import check_not_older, own_keyring
from unknot.store.shown import one_line


@dataclass(frozen=True)
class Misfit:
    """What is wrong between a run and its keys; nothing where nothing is."""

    why: str = ""
    refused: bool = False
    """Whether the run cannot be gone on with as it is."""


def misfit(db: Database, folder: str | Path, keys: str | Path | None = None) -> Misfit:
    """Of a run that nobody holds, by its keys.

    Nothing is known where they lie apart and are not named, or cannot be opened here.
    """
    away = keys is None and not os.path.lexists(Path(folder) / KEYS)
    if db.last("checkpoint") is None or (away and begun_in(db, folder)[0].get("keys") is not None):
        return Misfit()
    try:
        ring = own_keyring(db, folder, keys)
        if not is_installed():
            return Misfit()
        check_not_older(db, ring, folder)
        check_named(db, ring, folder)
    except StoreError as error:
        return Misfit(one_line(error), refused=True)
    if late := unknown(db, ring):
        return Misfit(f"{told(folder, late)}; where the run is gone on with, that comes again first")
    return Misfit()
