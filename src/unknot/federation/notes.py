"""What a method remembers of a lane: its structure, never numbers that are made of data."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from unknot.core.form import NotPlain, at, structure

INSTEAD = (
    "notes hold structure, and no erasure clears them of numbers. Keep weights in desk.archive, or, of an "
    "approximate method, in desk.keepsakes: erasures purge those"
)


class Notes(MutableMapping[str, Any]):
    """The notes of a lane, by name: plain data that a run can be gone on with from.

    What is put in is looked at, and again when the run is written, since what lies in it may have been
    changed: None, truth values, whole and real numbers, texts, bytes, tuples, lists, sets and dicts of these,
    units, and dataclasses that were declared (`unknot.plain_data`). Raises `NotPlain` for anything else.
    """

    __slots__ = ("_held", "_lane")

    def __init__(self, lane: str, held: Mapping[str, Any] | None = None) -> None:
        self._lane = lane
        self._held: dict[str, Any] = {}
        self.update(held or {})

    def __getitem__(self, name: str) -> Any:
        return self._held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if type(name) is not str:
            raise NotPlain(f"goes by a text, not by {name!r}", f"a note of lane {self._lane!r}")
        with at(f"lane {self._lane!r} notes[{name!r}]"):
            structure(value, INSTEAD)
        self._held[name] = value

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"Notes({self._held!r})"

    def copied(self) -> Notes:
        """The same notes, which may change while these do not."""
        other = Notes(self._lane)
        other._held = copy.deepcopy(self._held)
        return other

    def check(self) -> None:
        """Raise for what was changed, since it was put in, into what has no written form."""
        with at(" notes"):
            structure(self._held, INSTEAD)
