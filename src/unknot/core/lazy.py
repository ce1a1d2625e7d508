"""Imported when first asked for: the names of a package, and the rooms that fill the registries.

Python locks every module by itself, and two threads that import parts of one package at once can come to hold
what the other needs. So all that is asked for here is imported under one lock. A module of unknot asks for
nothing here while it is itself imported: it would hold its own lock and wait for this one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any

_ONE_AT_A_TIME = RLock()


def imported(path: str) -> Any:
    """The module of this name, or the thing at ``package.module:Thing``."""
    module, _, name = path.partition(":")
    with _ONE_AT_A_TIME:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found


def names(package: str, paths: Iterable[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package whose names lie at these paths: imported when used.

    Its own modules are found, too: after ``import unknot`` there is ``unknot.federation``.
    """
    path_of = {}
    for path in paths:
        home, _, name = path.partition(":")
        path_of[name] = path if home != package else f"{home}.{name}"

    def getattr_(name: str) -> Any:
        here = sys.modules[package]
        if name in path_of:
            setattr(here, name, thing := imported(path_of[name]))
            return thing
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")  # as Python itself would: no lock
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=here)

    def dir_() -> list[str]:
        return sorted({*vars(sys.modules[package]), *path_of})

    return getattr_, dir_
