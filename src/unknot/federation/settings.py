"""What a federation is built of does not change while it runs: a run that is gone on with is built anew.

A method remembers in notes and archives, a selector and an aggregator in copies of what was given. What is
changed elsewhere, in a method's own attributes, say, would be gone after a resumption, and bits with it.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import types
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from unknot.core.digests import digest, raw
from unknot.core.written import NotPlain, Writer, attributes_of

DEEP = 30
Number = bool | int | float | str | None
_WHERE = {
    "method": "what a method remembers belongs into lane.notes (structure) or desk.archive (weights)",
    "pace": "a pace has settings alone: let it go by what it is asked",
    "slowness": "it has settings alone: let it go by what it is asked",
    "aggregator": "every node has one of its own: keep its state in attributes that fresh() gives anew",
    "selector": "every lane has a copy of it: keep its state in attributes, which copies do not share",
}


class Settings:
    """What some parts of a federation are, so that they can be looked at again."""

    def __init__(self, parts: Mapping[str, object]) -> None:
        self._parts = dict(parts)
        self._before = {name: _Look(part) for name, part in self._parts.items()}

    def check(self) -> None:
        """Raise `NotPlain`, by its name, if one of them is not what it was."""
        for name, part in self._parts.items():
            before, now = self._before[name].found, _Look(part).found
            if before != now:
                places = (place for place in {**before, **now} if before.get(place) != now.get(place))
                raise NotPlain(
                    f"the {name}'s {next(places)} is not what it was when the federation was built, and "
                    f"would be lost when the run is gone on with: {_WHERE[name]}"
                )


def numbers_of(parts: Mapping[str, object]) -> dict[str, Number]:
    """The numbers and truth values that parts were given, by place: to compare with those of another process.

    Texts are left out: one may be a client's name. So are the fields of dataclasses, which the record has,
    but for what was learned, of which there is a digest: it is no setting, and another gives other bits.
    """
    found: dict[str, Number] = {}
    for name, part in parts.items():
        held = dict(part.keywords) if isinstance(part, functools.partial) else attributes_of(part)
        known = {field.name for field in fields(part)} if is_dataclass(part) else set()
        for attribute, value in held.items():
            own = not attribute.startswith("_") and attribute not in known
            if attribute in known and hasattr(value, "lineage") and not hasattr(value, "fresh"):
                found[f"{name} {type(part).__name__}.{attribute}"] = _digest(value)
            if own and type(value) in (bool, int, float, type(None)):
                found[f"{name} {type(part).__name__}.{attribute}"] = cast(Number, value)
    return found


def _digest(learned: Any) -> str | None:
    """Of the numbers of something that was learned; None where it has no written form."""
    held = learned.remembered() if hasattr(learned, "remembered") else attributes_of(learned)
    out = Writer()
    try:
        out.put({name: value for name, value in held.items() if name != "lineage"})
    except NotPlain:
        return None
    return hashlib.sha256(out.written().content).hexdigest()


def alike(one: object, other: object) -> bool:
    """Whether two things hold the same; one that does not show what it holds is like itself alone."""
    try:
        first, second = (_Look(thing, copies=True).found for thing in (one, other))
        return list(first.items()) == list(second.items())  # in their order, too
    except Exception:  # whatever a thing of somebody's own does when it is looked at
        return False


class _Look:
    """All that a thing holds, by place: `found`. Two that are equal hold the same.

    With `copies` a copy is equal, too: tensors go by their numbers; what hides something is equal to itself.
    """

    def __init__(self, thing: object, copies: bool = False) -> None:
        self.found: dict[str, object] = {}
        self._copies = copies
        self._seen: dict[int, tuple[object, str]] = {}  # held, so that no other thing is taken for it
        self._walk(thing, type(thing).__name__, 0)

    def _walk(self, value: Any, place: str, deep: int) -> None:
        kind = type(value)
        if kind in (type(None), bool, int, str, bytes):
            self.found[place] = (kind, value)
        elif kind is float:
            self.found[place] = value.hex()
        elif (before := self._seen.get(id(value))) is not None:
            self.found[place] = ("again", before[1])
        else:
            self._seen[id(value)] = (value, place)
            self.found[place] = kind if self._copies else kind.__name__
            if deep < DEEP:
                for name, part in self._parts(value, place).items():
                    self._walk(part, place + name, deep + 1)
            elif self._copies:
                self.found[place] = id(value)

    def _parts(self, value: Any, place: str) -> dict[str, object]:
        """What has parts is found to be those; of others it is noted what they are."""
        kind = type(value)
        if isinstance(value, PurePath):  # which notes what it was asked for, in slots
            self.found[place] = (kind, str(value))
        elif isinstance(value, np.ndarray | np.generic):
            return self._array(value, place)
        elif isinstance(value, Tensor):
            return self._tensor(value, place)
        elif isinstance(value, type | types.FunctionType):
            self.found[place] = id(value)
        elif isinstance(value, _NAMED):
            self.found[place] = id(value) if self._copies else kind
        elif isinstance(value, set | frozenset):
            self.found[place] = (kind, frozenset(value))
            return _held(value)
        elif isinstance(value, list | tuple | deque):
            most = value.maxlen if isinstance(value, deque) else None
            items = {f"[{at}]": item for at, item in enumerate(value)}
            return {".length": len(value), ".maxlen": most, **items, **_held(value)}
        elif isinstance(value, dict):
            made = value.default_factory if isinstance(value, defaultdict) else None
            return {".default": made, **{f"[{key!r}]": item for key, item in value.items()}, **_held(value)}
        else:
            tells = any("__reduce__" in vars(base) for base in kind.__mro__ if base is not object)
            if tells or isinstance(value, _PLAIN) or not hasattr(value, "__dict__"):
                return {**_held(value), **self._state(value, place)}
            return _held(value)
        return {}

    def _array(self, value: Any, place: str) -> dict[str, object]:
        if value.dtype.hasobject:
            return {".shape": value.shape, ".dtype": value.dtype.str, " items": value.tolist()}
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest()
        self.found[place] = (type(value), value.shape, value.dtype.str, content)
        more = isinstance(value, np.ndarray) and type(value) is not np.ndarray  # a mask, say
        return self._state(value, place) if more else {}

    def _tensor(self, value: Tensor, place: str) -> dict[str, object]:
        if not self._copies and STATE not in place:  # it counts how often it was changed
            self.found[place] = (id(value), 0 if value.is_inference() else value._version)
            return {}
        if value.layout != torch.strided or type(value) not in (Tensor, torch.nn.Parameter):
            return self._state(value, place)
        content = digest(str(value.dtype), value.shape, raw(value))
        self.found[place] = (type(value), content, value.stride(), str(value.device), value.requires_grad)
        return {".grad": value.grad if value.is_leaf else None, **_held(value)}

    def _state(self, value: object, place: str) -> dict[str, object]:
        """What there is within something that has no attributes, such as a generator of random numbers."""
        try:
            made = value.__reduce_ex__(4)
        except Exception:  # it does not say
            made = None
        if isinstance(made, tuple) and len(made) > 1:
            return {STATE: made}
        if self._copies:
            self.found[place] = id(value)
        return {}


def _held(value: object) -> dict[str, object]:
    return {f".{name}": item for name, item in attributes_of(value).items()}


STATE = "'s state"
_PLAIN = (int, float, complex, str, bytes, bytearray)
_NAMED = (types.BuiltinFunctionType, types.ModuleType, logging.Logger)
"""What is known by its name, or changes as it likes."""
