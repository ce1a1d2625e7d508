"""From the plain values of a TOML table to typed ones, with errors that say where and what."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from unknot.core.errors import ConfigError, nearest

T = TypeVar("T")

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_NUMBERS: dict[type, Any] = {int: Integral, float: Real}


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a file, or an error that says what is wrong with it."""
    file = Path(path)
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from None


def convert(value: object, hint: Any, where: str) -> Any:
    """`value` as the type `hint`, or an error that names the place."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in args if option is not type(None)]
        if value is None and len(options) < len(args):
            return None
        for option in options:
            try:
                return convert(value, option, where)
            except ConfigError:
                if option is options[-1]:
                    raise
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(kinds) != len(value):
            raise ConfigError(f"{where} must be a list of {len(kinds)}, not of {len(value)}")
        return tuple(
            convert(item, kind, f"{where}[{i}]")
            for i, (item, kind) in enumerate(zip(value, kinds, strict=True))
        )
    if origin is typing.Literal and value not in args:
        raise ConfigError(
            f"{where} = {value!r} is not one that there is.{nearest(str(value), map(str, args))}"
        )
    if hint in _NUMBERS and isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool):
        return hint(value)
    if hint in _WORDS and (hint in _NUMBERS or not isinstance(value, hint)):
        raise ConfigError(f"{where} must be {_WORDS[hint]}, not {value!r}")
    return Path(value) if hint is Path and isinstance(value, str) else value


def field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def fill(cls: type[T], values: Mapping[str, object], where: str) -> T:
    """An instance of a dataclass from named values; unknown and missing ones are errors."""
    hints = typing.get_type_hints(cls)
    known = field_names(cls)
    refuse_unknown(values, known, where)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if no_default and field.name not in values:
            raise ConfigError(f"{where}.{field.name} is missing")
    typed = {name: convert(value, hints[name], f"{where}.{name}") for name, value in values.items()}
    return cls(**typed)


def refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    options = list(known)
    for name in values:
        if name not in options:
            raise ConfigError(f"unknown key {where}.{name}.{nearest(name, options)}")


def choose(options: Mapping[str, T], name: object, where: str) -> T:
    """One of several named things."""
    if not isinstance(name, str) or name not in options:
        raise ConfigError(f"{where} = {name!r} is not one that there is.{nearest(str(name), options)}")
    return options[name]


def split_by_owner(
    table: Mapping[str, object], owners: Mapping[str, Iterable[str]], where: str
) -> dict[str, dict[str, object]]:
    """Deal a section's keys out to those that have a field of that name."""
    fields = {owner: set(names) for owner, names in owners.items()}
    refuse_unknown(table, [name for names in fields.values() for name in names], where)
    return {
        owner: {name: value for name, value in table.items() if name in names}
        for owner, names in fields.items()
    }
