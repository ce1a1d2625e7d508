"""``"package.module:Thing"``, from what is installed or from beside the file that names it."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, UnknotError, nearest
from unknot.core.errors import said as told

_BESIDE: ContextVar[Path | None] = ContextVar("beside", default=None)
_CLOSED: ContextVar[bool] = ContextVar("closed", default=False)


class NotImported(UnknotError):
    """Something was to be imported where nothing may be; its text is what."""


@contextmanager
def nothing_imported() -> Iterator[None]:
    """Within: whoever names a ``package.module:Thing`` gets `NotImported`, and no module is executed."""
    token = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def names_code(value: object) -> bool:
    """Whether it is written as something to import is."""
    if not isinstance(value, str):
        return False
    module, _, names = value.partition(":")
    return all(part.isidentifier() for part in [*module.split("."), *names.split(".")])


@contextmanager
def beside(folder: str | Path) -> Iterator[None]:
    """Within: modules are also looked for in this folder, that of the file that names them."""
    token = _BESIDE.set(Path(folder).resolve())
    try:
        yield
    finally:
        _BESIDE.reset(token)


def imported(path: str, said: str) -> Any:
    """The thing at ``package.module:Thing``; `said` is how the error names the place."""
    if _CLOSED.get():
        raise NotImported(path)
    module, _, names = path.partition(":")
    if not names_code(path):
        raise ConfigError(f"{said}: something to import is written as 'package.module:Thing'")
    found = _module(module, said)
    for name in names.split("."):
        if not hasattr(found, name):
            public = [known for known in vars(found) if not known.startswith("_")]
            close = difflib.get_close_matches(name, public, n=len(public))  # not all that a module may hold
            raise ConfigError(f"{said}: {module} has no {name!r}.{nearest(name, close)}")
        found = getattr(found, name)
    return found


def _module(name: str, said: str) -> Any:
    folder, top = _BESIDE.get(), name.partition(".")[0]
    near = folder is not None and any((folder / p).exists() for p in (f"{top}.py", f"{top}/__init__.py"))
    if near and str(folder) not in sys.path:
        sys.path.append(str(folder))  # for good: a module may import its neighbours later
        importlib.invalidate_caches()
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{said}: {name} needs {error.name}, which is not installed") from error
        looked = "" if folder is None else f", nor in {folder}"
        raise ConfigError(f"{said}: no module {error.name} is installed{looked}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may even try to end the program
        raise ConfigError(f"{said}: importing {name} failed: {told(error)}") from error
    if folder is not None and near:
        file = getattr(sys.modules[top], "__file__", None) or "itself"
        if not Path(file).resolve().is_relative_to(folder):
            raise ConfigError(
                f"{said}: there is a {top} in {folder}, but Python has imported the one in {file}: "
                "give yours another name"
            )
    return found
