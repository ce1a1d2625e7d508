"""A section's values, dealt out to the thing that it is about and to its parts.

An option goes to all that have one of that name: to the thing itself, and to its parts: options that are
things with options themselves (a method's optimiser, a clock's slowness, a selector's settings). A part with
a table of its own takes its options from there alone.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from unknot.core.errors import ConfigError, nearest
from unknot.core.fields import convert, unknown
from unknot.core.registry.options import REQUIRED, Option, options_of

T = TypeVar("T")
Options = Mapping[str, Option]
Values = Mapping[str, object]
Change = Callable[[object, Option, str], object]
"""What becomes of a value, by its option and its place in the section."""


class Names(Protocol):
    """What a section asks of a registry."""

    @property
    def kind(self) -> str: ...
    def is_of(self, kinds: frozenset[Any]) -> bool: ...
    def get(self, name: str, where: str = "") -> Any: ...
    def options_of(self, thing: Any) -> dict[str, Option]: ...
    def make(self, name: str, values: Values | None = None, where: str = "") -> Any: ...
    def owners(self, key: str) -> list[str]: ...
    def name_of(self, thing: object) -> str: ...


Choice = tuple[str, Names, str]
"""Under which key a section chooses, among which things, and which it chose: to explain a stray option."""

REGISTRIES: list[Names] = []


def filled(cls: type[T], values: Values, where: str) -> T:
    """A dataclass from a section's values, its parts by name."""
    options = options_of(cls)
    told = taken(options, values, where, where)
    with as_written(where, options):
        return cls(**told)


@contextmanager
def as_written(where: str, keys: Iterable[str], alone: bool = True) -> Iterator[None]:
    """Within: what a thing finds wrong with its options is told of the keys that a person wrote.

    ``SGD: lr must be positive`` is then ``train.lr must be positive``. What names no option first is told of
    the section, unless something else may be meant, where this is not all that happens (`alone`). In Python
    there is no section, and the class is named.
    """
    try:
        yield
    except ConfigError as error:
        if where and (told := _told_of(str(error), where, keys, alone)):
            raise type(error)(told) from error
        raise


def _told_of(text: str, where: str, keys: Iterable[str], alone: bool) -> str:
    if text.startswith(f"{where}."):
        return text
    names = "|".join(re.escape(key) for key in keys if key != "name")
    found = re.match(rf"(?:[^:.]*: )?({names})\b(?!\.|: )|(?:{names}): ", text) if names else None
    if found is not None:
        return f"{where}.{text[max(found.start(1), 0) :]}"
    return f"{where}: " + re.sub(r"^\w+: ", "", text) if alone else ""


def taken(
    options: Options,
    values: Values,
    where: str,
    who: str,
    choices: Iterable[Choice] = (),
    inside: Names | None = None,
    supplied: Collection[str] = (),
) -> dict[str, Any]:
    """Values for these options, converted, their parts made; any other value is refused.

    `where` is the section, for errors; without one, `who` says whose options they are. `inside` is the
    registry that the thing itself is of. `supplied` options need not be there.
    """
    parts = _parts(options, values, where, inside)
    inner = _choices(options, parts)
    named = () if inside is None else ("name",)
    _refuse_unknown(values, _keys(options, parts, values), where, who, [*choices, *inner], named)
    made: dict[str, Any] = {}
    for name, part in parts.items():
        mine = _share(part, parts, values)
        if mine or part.start is None:
            made[name] = part.make(mine, where if part.table is None else _place(where, name))
    for name, option in options.items():
        if name in values and name not in parts:
            place = f"{where}.{name}" if where else f"{who}: {name}"
            made[name] = _several(values[name], option.hint, place) or convert(
                values[name], option.hint, place
            )
        elif option.default is REQUIRED and name not in made and name not in supplied:
            missing = f"{where}.{name} is missing" if where else f"{who}: the option {name!r} is missing"
            raise ConfigError(missing + _remedy(option))
    return made


def _remedy(option: Option) -> str:
    """What to do about an option that must be given: what it means, and that it is to be written."""
    about = re.split(r"(?<=[.?!;:])\s", option.about)[0].rstrip(".;:") if option.about else ""
    return f": write {option.name} = ..." + (f" ({about[0].lower()}{about[1:]})" if about else "")


def shared(
    values: Values, owners: Mapping[str, Options], where: str, choices: Iterable[Choice] = ()
) -> dict[str, dict[str, object]]:
    """What of a section's values each of several owners takes."""
    parts = {owner: _parts(options, values, where, None) for owner, options in owners.items()}
    keys = {owner: _keys(options, parts[owner], values) for owner, options in owners.items()}
    inner = [choice for owner, options in owners.items() for choice in _choices(options, parts[owner])]
    _refuse_unknown(values, set().union(*keys.values()), where, where, [*inner, *choices])
    return {owner: {k: v for k, v in values.items() if k in mine} for owner, mine in keys.items()}


def whole_paths(options: Options, values: Values, inside: Names | None = None) -> dict[str, object]:
    """The same values, those of options whose type names `Path` absolute: they lead there from anywhere.

    Where some words have a meaning of their own (`Literal`), a text is a path if there is something at it.
    """

    def whole(text: str, words: tuple[Any, ...]) -> str:
        return text if words and not Path(text).exists() else str(Path(text).absolute())

    return changed(options, values, lambda value, option, _: _each_path(value, option.hint, whole), inside)


def named_paths(options: Options, values: Values, inside: Names | None = None) -> list[tuple[str, str]]:
    """The files and folders that values name, with their options': those whose type names `Path`.

    None of them is looked at.
    """
    found: list[tuple[str, str]] = []

    def look(value: object, option: Option, place: str) -> object:
        def note(text: str, words: tuple[Any, ...]) -> str:
            if text not in words:
                found.append((place, text))
            return text

        return _each_path(value, option.hint, note)

    changed(options, values, look, inside)
    return found


def changed(
    options: Options, values: Values, change: Change, inside: Names | None = None, where: str = ""
) -> dict[str, object]:
    """The same values, each as `change` gives it for its option and place; those of parts too."""
    parts = _parts(options, values, where, inside)
    found = dict(values)
    for name, part in parts.items():
        place = where if part.table is None else _place(where, name)
        inner = changed(part.options, _share(part, parts, values), change, part.registry, place)
        if part.table is None:
            found |= inner
        elif isinstance(said := values.get(name), Mapping):
            found[name] = {**said, **inner}
    told = (option for name, option in options.items() if name in values and name not in parts)
    return found | {one.name: change(values[one.name], one, _place(where, one.name)) for one in told}


def _each_path(value: object, hint: Any, told: Callable[[str, tuple[Any, ...]], str]) -> object:
    """A value with its paths as they are `told`, with the words that are none (`Literal`)."""
    if isinstance(value, str) and Path in union(hint):
        worded = [kind for kind in union(hint) if typing.get_origin(kind) is typing.Literal]
        return told(value, tuple(word for kind in worded for word in typing.get_args(kind)))
    registry = registry_of(hint)
    if registry is not None and isinstance(value, Mapping) and "name" in value:
        inner = registry.options_of(registry.get(value["name"]))
        return changed(inner, value, lambda one, option, _: _each_path(one, option.hint, told), registry)
    for kind in union(hint):
        origin, kinds = typing.get_origin(kind), typing.get_args(kind)
        if isinstance(value, list | tuple) and kinds and origin in (tuple, list, Sequence):
            even = len(kinds) != len(value) or kinds[-1] is Ellipsis or origin is not tuple
            each = kinds[:1] * len(value) if even else kinds
            value = [_each_path(one, inner, told) for one, inner in zip(value, each, strict=True)]
        elif isinstance(value, Mapping) and kinds and origin in (dict, Mapping):
            value = {key: _each_path(one, kinds[1], told) for key, one in value.items()}
    return value


def _refuse_unknown(
    values: Iterable[str],
    known: Collection[str],
    where: str,
    who: str,
    choices: Iterable[Choice],
    named: Collection[str] = (),
) -> None:
    """Raise for an option that nobody has; one that another choice would have had is explained as such.

    `named` are keys that were read before: what is asked for may be a slip for them.
    """
    for key in values:
        if key in known:
            continue
        if not where:
            hint = nearest(key, known) if known else " It has no options."
            raise ConfigError(f"{who} has no option {key!r}.{hint}")
        for label, registry, name in choices:
            owners = registry.owners(key)
            if name in owners and label != f"{where}.name":
                raise ConfigError(f"{where}.{key} belongs into the table of {where}.{label}")
            if owners and name not in owners:
                listed = " or ".join(map(repr, owners))
                chosen = repr(name) if name else "not given"
                raise ConfigError(f"{where}.{key} belongs to {label} = {listed}, but {label} is {chosen}")
        raise ConfigError(unknown(key, {*known, *named}, where))


@dataclass(frozen=True)
class _Part:
    """An option that is a thing with options itself.

    `table` is what is said of it alone; None, and it takes what it has of the section around it. Where it
    is not named, `start` is what holds if nothing is said.
    """

    thing: Any
    registry: Names | None = None
    name: str = ""
    table: Values | None = None
    start: Any = None

    @property
    def options(self) -> dict[str, Option]:
        return options_of(self.thing) if self.registry is None else self.registry.options_of(self.thing)

    def make(self, values: Values, where: str) -> Any:
        if self.start is not None:
            options = self.options
            told = taken(options, values, where, where, inside=self.registry, supplied=options)
            with as_written(where, options):
                return dataclasses.replace(self.start, **told)
        if self.registry is not None:
            return self.registry.make(self.name, values, where)
        return filled(self.thing, values, where)


def _parts(options: Options, values: Values, where: str, inside: Names | None) -> dict[str, _Part]:
    """The options that are things with options, as far as there is anything to say of them.

    A thing within one of its own kind (a method's method) has only what is in its own table.
    """
    found = {}
    for option in options.values():
        registry = registry_of(option.hint)
        plain = next((kind for kind in union(option.hint) if _is_value(kind)), None)
        if registry is None and plain is None:
            continue
        value, place = values.get(option.name), _place(where, option.name)
        table: dict[str, object] | None = None if registry is None or registry is not inside else {}
        start = option.default if _is_value(type(option.default)) else None
        if isinstance(value, str) and registry is not None:
            found[option.name] = _Part(registry.get(value, place), registry, value, table)
            continue
        if isinstance(value, Mapping):
            table = dict(value)
            if registry is not None and "name" in table:
                name: Any = table.pop("name")
                found[option.name] = _Part(registry.get(name, f"{place}.name"), registry, name, table)
                continue
            if registry is not None and start is None:
                raise ConfigError(f"{place}.name is missing: which {registry.kind} is it?")
        elif option.name in values:  # one that is there already
            continue
        if start is not None:
            name = "" if registry is None else registry.name_of(type(start))
            found[option.name] = _Part(type(start), registry, name, table, start)
        elif isinstance(value, Mapping):
            found[option.name] = _Part(plain, table=table)
    return found


def _keys(options: Options, parts: Mapping[str, _Part], values: Values) -> set[str]:
    """What a thing takes of a section: its own options, and those of its parts without a table."""
    return set(options).union(*(_part_keys(part, parts, values) for part in parts.values()))


def _part_keys(part: _Part, parts: Mapping[str, _Part], values: Values) -> set[str]:
    if part.table is not None:
        return set()
    left = {key: value for key, value in values.items() if key not in parts}
    inner = part.options
    return _keys(inner, _parts(inner, left, "", part.registry), left)


def _share(part: _Part, parts: Mapping[str, _Part], values: Values) -> Values:
    if part.table is not None:
        return part.table
    mine = _part_keys(part, parts, values)
    return {key: value for key, value in values.items() if key in mine and key not in parts}


def _choices(options: Options, parts: Mapping[str, _Part]) -> list[Choice]:
    named = {key: registry for key, option in options.items() if (registry := registry_of(option.hint))}
    return [(key, registry, parts[key].name if key in parts else "") for key, registry in named.items()]


def _several(value: object, hint: Any, where: str) -> tuple[Any, ...]:
    """A list of things by name, each a text or a table, where the option is one of several such things."""
    kinds = typing.get_args(hint)
    registry = registry_of(kinds[0]) if typing.get_origin(hint) is tuple and len(kinds) == 2 else None
    if registry is None or not isinstance(value, list | tuple):
        return ()
    made = []
    for i, item in enumerate(value):
        table = dict(item) if isinstance(item, Mapping) else {"name": item}
        name = table.pop("name", None)
        if isinstance(item, str):  # an unknown one is told by the place that a person wrote it in
            registry.get(item, where)
        made.append(registry.make(name, table, f"{where}[{i}]") if isinstance(name, str) else item)
    return tuple(made)


def _place(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def registry_of(hint: Any) -> Names | None:
    """By whose names a value of this type can be given."""
    kinds = union(hint)
    return next((r for r in REGISTRIES if r.is_of(kinds)), None)


def union(hint: Any) -> frozenset[Any]:
    """The types of a union, None aside; a type alone is one of one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return frozenset(typing.get_args(hint)) - {type(None)}
    return frozenset({hint})


def _is_value(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)
