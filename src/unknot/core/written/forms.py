"""How the objects of a declared class are written and made: found once, the same for each of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Form:
    """The form of a class, which is known by `name`."""

    name: str
    head: bytes
    """The name, and how many fields follow."""
    parts: tuple[tuple[str, str, bytes], ...]
    """Of each field its name, its place in an error, and its name as it is written."""
    given: Mapping[str, bool]
    """All fields, and whether an object is given them when it is made."""

    @staticmethod
    def of(name: str, cls: Any) -> Form:
        names = [part.name for part in fields(cls) if part.metadata.get("written", True)]
        head = sized(name) + struct.pack("<Q", len(names))
        parts = tuple((part, f".{part}", sized(part)) for part in names)
        return Form(name, head, parts, {part.name: part.init for part in fields(cls)})

    def make(self, cls: Any, told: Mapping[str, object]) -> object:
        """An object of its fields; `ValueError` where one is none of the class's."""
        if not told.keys() <= self.given.keys():
            raise ValueError(f"{self.name} has no {sorted(told.keys() - self.given.keys())[0]!r}")
        made = cls(**{name: value for name, value in told.items() if self.given[name]})
        for name, value in told.items():
            if not self.given[name]:
                object.__setattr__(made, name, value)
        return made


def sized(text: str) -> bytes:
    """A text as it is written: how long it is, and its bytes."""
    encoded = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(encoded)) + encoded
