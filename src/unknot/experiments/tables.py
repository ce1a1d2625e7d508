"""A TOML file as a table, before it becomes values: changed, checked, looked through by its options."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, UnknotError
from unknot.core.fields import convert
from unknot.core.registry import (
    Option,
    Registry,
    beside,
    changed,
    datasets,
    engines,
    methods,
    models,
    named_paths,
    options_of,
    selectors,
    shared,
    whole_paths,
)
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.experiments.specs import FOLDER, FOLDERS_OWN, Course, DataSpec, EngineSpec, ModelSpec
from unknot.federation import Clock, Length


def apply_overrides(table: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy with ``section.key=value`` set; values are TOML, and bare words are texts."""
    merged = copy.deepcopy(dict(table))
    for override in overrides:
        path, equals, text = override.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
            raise ConfigError(f"--set takes section.key=value, not {override!r}")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        target = merged
        for name in names[:-1]:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise ConfigError(f"--set {override}: {name} is not a section")
        target[names[-1]] = value
    return merged


def check_texts(value: object, where: str) -> None:
    """Texts, and keys, go into files, and not everything that a shell passes on can."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_texts(key, f"a key of {where or 'the file'}")
            check_texts(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            check_texts(inner, f"request {i + 1}" if where == "request" else f"{where}[{i}]")
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{where} is {value!a}: its letter {error.start + 1} is none that UTF-8 has, so no file "
                "could hold it. Write another"
            ) from None


def lies_in(folder: Path, value: object) -> bool:
    """Whether a table names a "module:Thing" that lies in this folder."""
    if isinstance(value, str):
        top = re.match(r"([^\W\d]\w*)[\w.]*:[\w.]+\Z", value)
        return top is not None and any(
            (folder / f"{top[1]}{end}").exists() for end in (".py", "/__init__.py")
        )
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(lies_in(folder, one) for one in inner)


def from_anywhere(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same table, in which files and folders are named from the root: those of options that are paths."""
    return each_section(table, lambda _, values, options, registry: whole_paths(options, values, registry))


def paths_in(table: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files and folders that a table names, by section and option: those of options that are paths.

    What is wrong with a section is told when its turn comes: then nothing that it names is opened.
    """
    found: dict[str, list[str]] = {}

    def look(
        section: str, values: Mapping[str, Any], options: Mapping[str, Option], registry: Registry[Any] | None
    ) -> Mapping[str, Any]:
        for place, path in named_paths(options, values, registry):
            found.setdefault(f"{section}.{place}", []).append(path)
        return values

    each_section(table, look, skip=(UnknotError, LookupError, TypeError, ValueError, AttributeError))
    return found


def of_each_client(table: Mapping[str, Any]) -> list[str]:
    """The settings of a table that have a value for each client (`EACH`), by section and option."""
    found: list[str] = []

    def look(
        section: str, values: Mapping[str, Any], options: Mapping[str, Option], registry: Registry[Any] | None
    ) -> Mapping[str, Any]:
        def note(value: object, option: Option, place: str) -> object:
            if option.each and value:
                found.append(f"{section}.{place}")
            return value

        return changed(options, values, note, registry)

    each_section(table, look)
    return found


def each_section(
    table: Mapping[str, Any],
    change: Callable[[str, Mapping[str, Any], Mapping[str, Option], Registry[Any] | None], Mapping[str, Any]],
    skip: tuple[type[Exception], ...] = (),
) -> dict[str, Any]:
    """The same table, in which each section is as `change` gives it, by its name, values and options.

    One whose options cannot be told is left as it is, where the reason is to be skipped.
    """
    folder = convert(table.get("modules", ""), str, "modules")
    with beside(folder) if folder else nullcontext():
        found = dict(table)
        for section in [name for name in _OPTIONS if isinstance(table.get(name), Mapping)]:
            with suppress(*skip):
                found[section] = change(section, table[section], *_OPTIONS[section](table[section]))
        return found


def having(key: str, table: Mapping[str, Any]) -> list[str]:
    """The sections that have such a key, as the file has them now."""
    found = []
    for section, options_by in _OPTIONS.items():
        said = table.get(section, {})
        given = dict(said) if isinstance(said, Mapping) else {}
        try:
            options, _ = options_by(given)
            given.pop("name", None)
            shared({**given, key: table[key]}, {section: options}, section)
        except ConfigError:  # it has none, or is not right itself: told when its turn comes
            continue
        found.append(section)
    return found


_Options = tuple[Mapping[str, Option], Registry[Any] | None]


def _own(*kinds: type) -> Callable[[Mapping[str, Any]], _Options]:
    """The options of a section that is one or more values."""
    return lambda _: ({name: option for kind in kinds for name, option in options_of(kind).items()}, None)


def _chosen(
    registry: Registry[Any], usual: str, kind: type | None = None
) -> Callable[[Mapping[str, Any]], _Options]:
    """Those of a section that names a thing: the thing's, and those that the section has itself."""

    def options(table: Mapping[str, Any]) -> _Options:
        own = {} if kind is None else options_of(kind)
        return {**registry.options(table.get("name", usual)), **own}, registry

    return options


def _of_data(table: Mapping[str, Any]) -> _Options:
    if table.get("name") != FOLDER:
        return _chosen(datasets, DataSpec.name, DataSpec)(table)
    from unknot.data.client_files import folder

    own = options_of(DataSpec)
    return {**options_of(folder, given=0), **{name: own[name] for name in FOLDERS_OWN}}, None


_OPTIONS = {
    "data": _of_data,
    "model": _chosen(models, ModelSpec.name, ModelSpec),
    "train": _own(Recipe),
    "federation": _own(Course, Length),
    "select": _chosen(selectors, "uniform"),
    "clock": _own(Clock),
    "method": _chosen(methods, "rfs"),
    "task": _own(Task),
    "engine": _chosen(engines, EngineSpec.name, EngineSpec),
}
"""What the options of each section are, by what it says."""
