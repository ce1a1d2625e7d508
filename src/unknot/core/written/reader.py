"""Bytes made plain data again, whoever wrote them: nothing of theirs is executed or believed."""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unknot.core.errors import UnknotError, nearest
from unknot.core.lineage import ClientsInOrder, Lineage
from unknot.core.weights import Weights
from unknot.core.written import columns
from unknot.core.written.declared import CLASSES, CPU, DEEP, FORMS, MAGIC, Unreadable


def no_tensors(digest: str) -> Tensor:
    raise Unreadable("it names a tensor, and there are none")


@dataclass
class Reader:
    """Reads what a `Writer` wrote. `known` are the things that it named, `get` gives tensors by digest."""

    content: bytes
    get: Callable[[str], Tensor] = no_tensors
    known: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    """What clients are called: no name is ever written."""
    home: torch.device = CPU
    """Where what lay at home goes."""

    def __post_init__(self) -> None:
        self._at = len(MAGIC)
        self._seen: list[object] = []
        self._deep = 0
        if not self.content.startswith(MAGIC):
            raise Unreadable("these bytes are no written form of this version")

    def read(self) -> Any:
        """The next value; `Unreadable` for whatever cannot be."""
        try:
            return self._value()
        except UnknotError:
            raise
        except Exception as error:  # whatever hostile bytes lead to
            raise Unreadable(f"the written form does not fit: {type(error).__name__}: {error}") from None

    @property
    def ended(self) -> bool:
        return self._at == len(self.content)

    def _value(self) -> Any:
        self._deep += 1
        if self._deep > 2 * DEEP:
            raise Unreadable("things lie too deep within one another")
        try:
            tag = self._take(1)
            read = _KINDS.get(tag)
            if read is None:
                raise Unreadable(f"there is no kind of thing {tag!r}")
            return read(self)
        finally:
            self._deep -= 1

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self.content):
            raise Unreadable("the written form is cut off")
        taken = self.content[self._at : self._at + count]
        self._at += count
        return taken

    def _count(self) -> int:
        (count,) = struct.unpack("<Q", self._take(8))
        if count > len(self.content):
            raise Unreadable("the written form names more than it has")
        return int(count)

    def _bytes(self) -> bytes:
        return self._take(self._count())

    def _text(self) -> str:
        return self._bytes().decode("utf-8", "surrogatepass")

    def _known(self) -> object:
        name = self._text()
        if name not in self.known:
            raise Unreadable(f"it names {name!r}, which this federation does not have")
        return self.known[name]

    def _array(self) -> Any:
        kind = np.dtype(self._text())
        if kind.kind not in "biuf" or kind.itemsize > 8:
            raise Unreadable(f"an array of {kind}")
        shape = tuple(self._count() for _ in range(self._count()))
        raw = self._bytes()
        if len(raw) != math.prod(shape) * kind.itemsize:
            raise Unreadable("an array of another size")
        return np.frombuffer(raw, dtype=kind).reshape(shape).astype(kind.newbyteorder("="))

    def _items(self, how: bytes) -> Any:
        kind = self._take(1)
        if how == b"P":
            items = np.frombuffer(self._bytes(), dtype="<i8").tolist()
        elif how == b"Q":
            items = self._rows()
        else:
            items = [self._value() for _ in range(self._count())]
        if kind == b"q":
            most = self._value()
            return deque(items, maxlen=None if most is None else int(most))
        if kind == b"n":
            return ClientsInOrder(items).called(self.names)
        make: Callable[[Iterable[Any]], Any] = {b"l": list, b"t": tuple, b"s": set, b"f": frozenset}[kind]
        return make(items)

    def _lineage(self) -> Lineage:
        blocks, waived = self._value(), self._value()
        for place, mask in blocks.items():
            revision, block = place
            if min(revision, block) < 0 or mask <= 0:
                raise Unreadable("a lineage of no units")
        return Lineage.of_blocks(blocks).waiving(waived)

    def _weights(self) -> Weights:
        place = self._hold()
        layout = self._value()
        if self._take(1) != b"V":
            raise Unreadable("weights without a lineage")
        lineage = self._lineage()
        weights = Weights(self._value(), layout, lineage)
        self._seen[place] = weights
        return weights

    def _object(self) -> object:
        place = self._hold()
        cls = self._class()
        told = {self._text(): self._value() for _ in range(self._count())}
        self._seen[place] = made = FORMS[cls].make(cls, told)
        return made

    def _rows(self) -> list[object]:
        cls = self._class()
        found = {self._text(): self._column() for _ in range(self._count())}
        if not found:
            raise Unreadable("rows that have no columns")
        rows = zip(*found.values(), strict=True)
        made = [FORMS[cls].make(cls, dict(zip(found, row, strict=True))) for row in rows]
        self._seen += made
        return made

    def _column(self) -> list[object]:
        kind = self._take(1)
        return columns.from_bytes(kind, lambda: [self._text() for _ in range(self._count())], self._bytes)

    def _class(self) -> type:
        name = self._text()
        if name not in CLASSES:
            raise Unreadable(f"{name} is not known here.{nearest(name, CLASSES)}")
        return CLASSES[name]

    def _hold(self) -> int:
        """A place among the objects: they are numbered as they begin."""
        self._seen.append(None)
        return len(self._seen) - 1

    def _again(self) -> object:
        number = self._count()
        if number >= len(self._seen) or self._seen[number] is None:
            raise Unreadable("a reference to nothing")
        return self._seen[number]

    def _tensor(self) -> Tensor:
        digest = self._take(32).hex()
        where = self._take(1)
        if where not in (b"h", b"c"):
            raise Unreadable(f"a tensor that lies nowhere: {where!r}")
        found = self.get(digest)
        return found.to(self.home if where == b"h" else torch.device("cpu"))

    def _turned(self) -> Tensor:
        """A tensor that lies in memory with its axes in another order."""
        order = self._value()
        if self._take(1) != b"X":
            raise Unreadable("an order of axes without a tensor")
        found = self._tensor()
        if sorted(order) != list(range(found.dim())):
            raise Unreadable("an order of axes that a tensor does not have")
        return found.permute([order.index(axis) for axis in range(found.dim())])


_KINDS: Mapping[bytes, Callable[[Reader], Any]] = {
    b"N": lambda self: None,
    b"T": lambda self: True,
    b"F": lambda self: False,
    b"K": Reader._known,
    b"I": lambda self: struct.unpack("<q", self._take(8))[0],
    b"J": lambda self: int.from_bytes(self._bytes(), "little", signed=True),
    b"D": lambda self: struct.unpack("<d", self._take(8))[0],
    b"S": Reader._text,
    b"B": Reader._bytes,
    b"A": Reader._array,
    b"G": lambda self: self._array()[()],
    b"X": Reader._tensor,
    b"Y": Reader._turned,
    b"P": lambda self: self._items(b"P"),
    b"Q": lambda self: self._items(b"Q"),
    b"C": lambda self: self._items(b"C"),
    b"M": lambda self: {self._value(): self._value() for _ in range(self._count())},
    b"R": Reader._again,
    b"V": Reader._lineage,
    b"W": Reader._weights,
    b"O": Reader._object,
}
