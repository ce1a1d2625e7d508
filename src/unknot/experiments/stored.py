"""Where and how a run that is made in Python is kept: what ``simulate(..., store=)`` takes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from unknot.core.errors import ConfigError
from unknot.core.outside import check_outside
from unknot.federation import Observer


@dataclass(frozen=True)
class Store:
    """The folder in which a run is kept, with where its keys are and how often it is kept."""

    folder: str | Path
    """The run's own, such as "runs/NAME"."""
    keys: str | Path | None = None
    """The file of its keys, apart from the folder; left out: the file "keys" there."""
    checkpoint: float | None = None
    """It is kept every so many seconds; 5 if left out."""

    def __post_init__(self) -> None:
        if not _is_path(self.folder):
            raise ConfigError(
                f"store is the folder in which the run is kept, such as 'runs/NAME', not {self.folder!r}"
            )
        if self.keys is not None and not _is_path(self.keys):
            raise ConfigError(f"keys is the file of the run's keys, such as 'keys/NAME', not {self.keys!r}")
        if self.checkpoint is not None and not _is_seconds(self.checkpoint):
            raise ConfigError(f"checkpoint is a number of seconds, 0 or more, not {self.checkpoint!r}")

    @staticmethod
    def of(store: str | Path | Store, observers: Iterable[Observer] = ()) -> Store:
        """What was given for it, a folder alone, too; `observers` may not write there."""
        found = store if isinstance(store, Store) else Store(store)
        for observer in observers:
            if isinstance(place := getattr(observer, "place", None), Path):
                check_outside(type(observer).__name__, place, Path(found.folder))
        return found


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and isinstance(name := os.fspath(value), str) and bool(name)


def _is_seconds(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < math.inf
