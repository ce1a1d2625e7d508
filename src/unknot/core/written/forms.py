"""How the objects of a declared class are written and made: found once, the same for each of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

OURS = __name__.partition(".")[0]


@dataclass(frozen=True)
class Form:
    """The form of a class, which is known by `name`."""

    name: str
    head: bytes
    """The name, and how many fields follow."""
    parts: tuple[tuple[str, str, bytes], ...]
    """Of each field its name, its place in an error, and its name as it is written."""
    given: Mapping[str, Field[Any]]
    """All fields."""
    aside: frozenset[str]
    """What an object may hold beside its fields: values that are found anew when they are asked for."""
    checked: bool
    """Whether its own checks are made when it is read: of our classes, whoever wrote the bytes.

    Those of others are given their fields as they were, and no code of theirs is run: what it does to the
    fields has been done once.
    """

    @staticmethod
    def of(name: str, cls: Any) -> Form:
        names = [part.name for part in fields(cls) if part.metadata.get("written", True)]
        head = sized(name) + struct.pack("<Q", len(names))
        parts = tuple((part, f".{part}", sized(part)) for part in names)
        unwritten = {part.name for part in fields(cls)} - set(names)
        return Form(
            name,
            head,
            parts,
            {part.name: part for part in fields(cls)},
            _found_anew(cls) | unwritten,
            cls.__module__.partition(".")[0] == OURS,
        )

    def beside(self, value: object) -> str | None:
        """An attribute that is no field, if an object has one: it would be lost."""
        held: Mapping[str, object] = getattr(value, "__dict__", {})
        if held.keys() <= self.given.keys():
            return None
        return next((name for name in held if name not in self.given and name not in self.aside), None)

    def make(self, cls: Any, told: Mapping[str, object]) -> object:
        """An object of its fields; `ValueError` where one is none of the class's."""
        if not told.keys() <= self.given.keys():
            raise ValueError(f"{self.name} has no {sorted(told.keys() - self.given.keys())[0]!r}")
        if self.checked:
            made = cls(**{name: value for name, value in told.items() if self.given[name].init})
            told = {name: value for name, value in told.items() if not self.given[name].init}
        else:
            made = object.__new__(cls)
            told = {**dict(self._usual(told)), **told}
        for name, value in told.items():
            object.__setattr__(made, name, value)
        return made

    def _usual(self, told: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """What fields are that nothing is told of; `ValueError` where that is not known."""
        for name, field in self.given.items():
            if name in told:
                continue
            if field.default is not MISSING:
                yield name, field.default
            elif field.default_factory is not MISSING:
                yield name, field.default_factory()
            elif field.metadata.get("written", True):
                raise ValueError(f"nothing is told of {name!r} of {self.name}")


def slots_of(cls: type) -> list[str]:
    """The slots of a class and of those that it comes of, by the names that they have from outside."""
    found = []
    for kind in cls.__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{kind.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _found_anew(cls: type) -> frozenset[str]:
    """The values that its objects find when they are asked for them, and keep."""
    own = (item for kind in cls.__mro__ for item in vars(kind).items())
    return frozenset(name for name, value in own if isinstance(value, cached_property))


_SHAPES: WeakKeyDictionary[type, tuple[list[str], frozenset[str]]] = WeakKeyDictionary()


def attributes_of(thing: object) -> dict[str, object]:
    """All that an object holds, in slots too, under true names; not what it finds anew when it is asked."""
    cls = type(thing)
    if (shape := _SHAPES.get(cls)) is None:
        shape = _SHAPES[cls] = slots_of(cls), _found_anew(cls)
    slots, aside = shape
    found = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    held: Mapping[str, object] = getattr(thing, "__dict__", {})
    return {**found, **{name: value for name, value in held.items() if name not in aside}}


def sized(text: str) -> bytes:
    """A text as it is written: how long it is, and its bytes."""
    encoded = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(encoded)) + encoded
