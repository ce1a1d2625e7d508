"""From the plain values of a TOML table to typed ones, with errors that say where and what."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from unknot.core.errors import ConfigError, nearest

T = TypeVar("T")

EACH = "a value a client"
"""Marks the type of an option that has a value for each client, or says who is where by number:
``Annotated[tuple[float, ...], EACH]``. What it says of a client stays in a kept run once the client has left,
and that is told."""

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_NUMBERS: dict[type, Any] = {int: Integral, float: Real}


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a file, or an error that says what is wrong with it."""
    file = Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}: look at its name and its folder") from None
    except IsADirectoryError:
        raise ConfigError(f"{file} is a folder: name the TOML file in it") from None
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not text in UTF-8: save it as a TOML file in that encoding") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        why = error if isinstance(error, tomllib.TOMLDecodeError) else "nested too deeply"
        raise ConfigError(f"{file} is not valid TOML: {why}") from None


def convert(value: object, hint: Any, where: str) -> Any:
    """`value` as the type `hint`, or an error that names the place."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in args if option is not type(None)]
        if value is None and len(options) < len(args):
            return None
        return _one_of(value, options, where)
    if origin in (list, Sequence) and args:
        if not isinstance(value, list | tuple):
            kind = f" of {_WORDS[args[0]].removeprefix('a ')}s" if args[0] in (int, float, str) else ""
            raise ConfigError(f"{where} must be a list{kind}, not {value!r}")
        return [convert(item, args[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if origin in (dict, Mapping) and args:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a table, not {value!r}")
        return {key: convert(item, args[1], f"{where}.{key}") for key, item in value.items()}
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
    if hint is Path and not isinstance(value, str | Path):
        raise ConfigError(f"{where} must be a text, not {value!r}")
    return Path(value) if hint is Path and isinstance(value, str) else value


def _one_of(value: object, hints: Sequence[Any], where: str) -> Any:
    """`value` as the first of these types that it can be; what fits none is told of all of them."""
    begin, end = f"{where} must be ", f", not {value!r}"
    words, inside = dict[str, None](), ""
    for hint in hints:
        try:
            return convert(value, hint, where)
        except ConfigError as error:
            told = str(error)
            if told.startswith(begin) and told.endswith(end):
                words[told[len(begin) : -len(end)]] = None
            else:  # it is of this kind, but for something in it
                inside = told
    if _WORDS[float] in words:
        words.pop(_WORDS[int], None)
    raise ConfigError(inside or f"{begin}{' or '.join(words)}{end}")


def field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    options = list(known)
    for name in values:
        if name not in options:
            raise ConfigError(unknown(name, options, where))


def unknown(name: str, known: Iterable[str], where: str) -> str:
    """That nobody knows a key: ``train.lrr``, or ``'rond' in request 2`` where the place is a phrase."""
    place = f"{name!r} in {where}" if " " in where else f"{where}.{name}"
    return f"unknown key {place}.{nearest(name, known)}"


def choose(options: Mapping[str, T], name: object, where: str) -> T:
    """One of several named things."""
    if not isinstance(name, str) or name not in options:
        raise ConfigError(f"{where} = {name!r} is not one that there is.{nearest(str(name), options)}")
    return options[name]
