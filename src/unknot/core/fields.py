"""From the plain values of a TOML table to typed ones, with errors that say where and what."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from unknot.core.errors import ConfigError, near, nearest

T = TypeVar("T")

EACH = "a value a client"
"""Marks the type of an option that has a value for each client, or says who is where by number:
``Annotated[tuple[float, ...], EACH]``. What it says of a client stays in a kept run once the client has left,
and that is told."""

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a text"}
_KINDS: dict[Any, Any] = {
    int: Integral,
    float: Real,
    bool: bool,
    str: str,
    Path: str | Path,
    list: list | tuple,
    Sequence: list | tuple,
    tuple: list | tuple,
    dict: Mapping,
    Mapping: Mapping,
}


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a file, or an error that says what is wrong with it."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}; name a TOML file") from None
    except (ValueError, RecursionError) as error:  # of its encoding, or of TOML
        raise ConfigError(f"{path} is not valid TOML in UTF-8: {error}") from None


def convert(value: object, hint: Any, where: str) -> Any:
    """`value` as the type `hint`, or an error that names the place."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in args if option is not type(None)]
        return None if value is None and len(options) < len(args) else _one_of(value, options, where)
    if origin is typing.Literal and value not in args:
        hint = nearest(str(value), map(str, args))
        raise ConfigError(f"{where} = {value!r} is not one that there is.{hint}")
    if not _fits(value, hint):
        raise ConfigError(f"{where} must be {_told(hint)}, not {value!r}")
    if origin in (dict, Mapping) and args:
        return {key: convert(item, args[1], f"{where}.{key}") for key, item in value.items()}  # type: ignore[attr-defined]
    if _KINDS.get(origin) == list | tuple and args:
        items = typing.cast("Sequence[object]", value)
        kinds = [*args] if origin is tuple and args[-1] is not Ellipsis else [args[0]] * len(items)
        if len(kinds) != len(items):
            raise ConfigError(f"{where} must be a list of {len(kinds)}, not of {len(items)}")
        pairs = enumerate(zip(items, kinds, strict=True))
        return (tuple if origin is tuple else list)(
            convert(item, kind, f"{where}[{i}]") for i, (item, kind) in pairs
        )
    return hint(value) if origin in (int, float, Path) else value


def _fits(value: object, hint: Any) -> bool:
    """Whether it is a number, a list, a table... as `hint` wants; any other type is let by."""
    origin = typing.get_origin(hint) or hint
    number_or_not = origin not in (int, float) or not isinstance(value, bool)
    return number_or_not and isinstance(value, _KINDS.get(origin, object))


def _told(hint: Any) -> str:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (dict, Mapping):
        return "a table"
    if origin in (list, Sequence) and args and args[0] in (int, float, str):
        return f"a list of {_WORDS[args[0]].removeprefix('a ')}s"
    return _WORDS.get(origin, "a list")


def _one_of(value: object, hints: Sequence[Any], where: str) -> Any:
    """`value` as the first of these types that it can be; what fits none is told of all of them."""
    fitting = [hint for hint in hints if _fits(value, hint)]
    for hint in fitting[:-1]:
        with suppress(ConfigError):
            return convert(value, hint, where)
    if fitting:
        return convert(value, fitting[-1], where)
    told = [_told(hint) for hint in hints if hint is not int or float not in hints]
    raise ConfigError(f"{where} must be {' or '.join(dict.fromkeys(told))}, not {value!r}")


def field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    options = list(known)
    for name in values:
        if name not in options:
            said = unknown(name, options, where)
            raise ConfigError(said, key=name, found=where, nearest=near(name, options))


def unknown(name: str, known: Iterable[str], where: str) -> str:
    """That nobody knows a key: ``train.lrr``, or ``'rond' in request 2`` where the place is a phrase."""
    place = f"{name!r} in {where}" if " " in where else f"{where}.{name}"
    return f"unknown key {place}.{nearest(name, known)}"


def choose(options: Mapping[str, T], name: object, where: str) -> T:
    """One of several named things."""
    if not isinstance(name, str) or name not in options:
        said = f"{where} = {name!r} is not one that there is.{nearest(str(name), options)}"
        raise ConfigError(said, key=where, found=name, nearest=near(str(name), options))
    return options[name]
