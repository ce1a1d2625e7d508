"""The written form of plain data: bytes, and the tensors that they name by digest.

What a run remembers is written so, and read again in another process without a bit lost: numbers never go
through text. Nothing but data is ever made of it: a class is known by a name that it was declared under
(`plain_data`), and its objects are made of their fields alone.

What both sides have anyhow (a federation's loss, its initial weights) is written as a name. The same weights,
lane or node in two places is one object afterwards too.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from unknot.core import columns
from unknot.core.digests import digest_of
from unknot.core.errors import UnknotError, nearest
from unknot.core.forms import Form, sized
from unknot.core.lineage import Clients, ClientsInOrder, Lineage
from unknot.core.weights import Weights

T = TypeVar("T")
MAGIC = b"unknot1\n"
CPU = torch.device("cpu")
DEEP = 100
"""So many things may lie within one another."""


class NotPlain(UnknotError):
    """Something has no written form: the message says what, where, and what to do."""


class Unreadable(UnknotError):
    """Bytes are no written form, or one of something that is not known here."""


_CLASSES: dict[str, type] = {}
_FORMS: dict[type, Form] = {}


def plain_data(cls: type[T]) -> type[T]:
    """Declare that objects of a dataclass `cls` are plain data: they are written field by field.

    A method, selector or aggregator of your own puts this on the classes of what it remembers.
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__qualname__} is no dataclass: only those are written field by field")
    name = f"{cls.__module__}:{cls.__qualname__}"
    _CLASSES[name], _FORMS[cls] = cls, Form.of(name, cls)
    return cls


@dataclass(frozen=True)
class Kept:
    """A tensor that written data names: how to get it, and whose it is.

    `owner` is the client whose contribution it is, alone; `clients` are all whose data shaped it.
    """

    load: Callable[[], Tensor]
    owner: int | None
    clients: frozenset[int]
    lasting: bool = False
    """Whether it stays as it is for long: a history, and not a model that the next round replaces."""


@dataclass(frozen=True)
class Written:
    """Plain data as bytes, with the tensors that it names by their digests."""

    content: bytes
    tensors: Mapping[str, Kept]


@dataclass
class Writer:
    """Writes plain data. `known` are things that the reader has anyhow, by name.

    `home` is the device that models lie on; the reader's may be another one.
    """

    known: Mapping[str, object] = field(default_factory=dict)
    home: torch.device = CPU

    def __post_init__(self) -> None:
        self._out = bytearray(MAGIC)
        self._tensors: dict[str, Kept] = {}
        self._known = {id(thing): name for name, thing in self.known.items()}
        self._seen: dict[int, int] = {}
        self._held: list[object] = []
        self._owner: int | None = None
        self._path: list[str] = []

    def written(self) -> Written:
        return Written(bytes(self._out), dict(self._tensors))

    @contextmanager
    def of(self, owner: int | None) -> Iterator[None]:
        """Within: tensors are the contribution of this client alone."""
        before, self._owner = self._owner, owner
        try:
            yield
        finally:
            self._owner = before

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Within: an error says that it is about this."""
        self._path.append(place)
        try:
            yield
        finally:
            self._path.pop()

    def put(self, value: object) -> None:
        """Write a value; raises `NotPlain` for one that has no written form."""
        if len(self._path) > DEEP:
            raise NotPlain(f"{self._place()}: things lie too deep within one another")
        kind = type(value)
        if kind is float:  # most of what there is, and so first
            self._out += b"D" + struct.pack("<d", value)
        elif kind is int:
            self._int(value)  # type: ignore[arg-type]
        elif value is None or kind is bool:
            self._out += b"N" if value is None else b"T" if value else b"F"
        elif id(value) in self._known:
            self._tag(b"K")
            self._text(self._known[id(value)])
        elif isinstance(value, int) and not isinstance(value, np.integer):
            self._int(value)
        elif isinstance(value, float) and not isinstance(value, np.floating):
            self._out += b"D" + struct.pack("<d", value)
        elif isinstance(value, str):
            self._tag(b"S")
            self._text(value)
        elif isinstance(value, bytes):
            self._tag(b"B")
            self._bytes(value)
        elif isinstance(value, np.ndarray | np.generic):
            self._array(value)
        elif isinstance(value, Tensor):
            self.tensor(value)
        elif (plain := _COLLECTIONS.get(kind)) is not None:
            self._collection(plain, value)
        elif kind is dict:
            self._mapping(value)  # type: ignore[arg-type]
        elif isinstance(value, Lineage):
            self._lineage(value)
        elif isinstance(value, Weights):
            self._once(value, b"W", self._weights)
        elif kind in _FORMS:
            self._once(value, b"O", self._object)
        else:
            raise NotPlain(
                f"{self._place()} is a {type(value).__name__}, which has no written form: keep plain data "
                "(numbers, texts, lists, sets, dicts, tensors, weights), or declare its class with "
                "@unknot.plain_data"
            )

    def tensor(self, tensor: Tensor, lineage: Lineage | None = None) -> None:
        """Write a tensor; its numbers lie apart."""
        self.named(digest_of(tensor), lambda: tensor, tensor.device, lineage)

    def named(
        self,
        digest: str,
        load: Callable[[], Tensor],
        device: torch.device,
        lineage: Lineage | None = None,
        lasting: bool = False,
    ) -> None:
        """The same of one whose digest is known, and which need not be at hand."""
        clients = frozenset() if lineage is None else frozenset(lineage.clients)
        owner = self._owner if self._owner is not None or len(clients) != 1 else next(iter(clients))
        if (other := self._tensors.get(digest)) is not None and other.owner != owner:
            owner = None  # the same numbers in two hands are no one's alone
        both = clients | (other.clients if other else frozenset())
        self._tensors[digest] = Kept(load, owner, both, lasting)
        self._tag(b"X")
        self._out += bytes.fromhex(digest)
        self._out += b"h" if device == self.home else b"c"

    # The kinds of things -----------------------------------------------------------------------------

    def _tag(self, tag: bytes) -> None:
        self._out += tag

    def _count(self, number: int) -> None:
        self._out += struct.pack("<Q", number)

    def _bytes(self, content: bytes) -> None:
        self._count(len(content))
        self._out += content

    def _text(self, text: str) -> None:
        self._out += sized(text)

    def _int(self, value: int) -> None:
        if -(2**63) <= value < 2**63:
            self._out += b"I" + struct.pack("<q", value)
        else:
            self._tag(b"J")
            self._bytes(int(value).to_bytes((value.bit_length() + 8) // 8, "little", signed=True))

    def _array(self, value: Any) -> None:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise NotPlain(f"{self._place()} is an array of {array.dtype}: keep numbers or truth values")
        self._tag(b"A" if isinstance(value, np.ndarray) else b"G")
        self._text(array.dtype.newbyteorder("<").str)
        self._count(array.ndim)
        for size in array.shape:
            self._count(size)
        self._bytes(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes())

    def _collection(self, tag: bytes, value: Any) -> None:
        items = list(value)
        if len(items) > 8 and all(type(item) is int and -(2**63) <= item < 2**63 for item in items):
            self._tag(b"P" + tag)  # packed: thousands of clients
            self._bytes(np.asarray(items, dtype="<i8").tobytes())
        elif (rows := self._rows(items)) is not None:
            self._tag(b"Q" + tag)
            self._columns(type(items[0]), rows)
            for item in items:
                self._hold(item)
        else:
            self._tag(b"C" + tag)
            self._count(len(items))
            for place, item in enumerate(items):
                with self.at(f"[{place}]"):
                    self.put(item)
        if tag == b"q":
            self.put(value.maxlen)

    def _rows(self, items: list[object]) -> list[columns.Column] | None:
        """The columns of several objects of one class, if they can be written so and none has been yet."""
        form = _FORMS.get(type(items[0])) if len(items) > 1 else None
        if form is None or any(id(item) in self._seen or id(item) in self._known for item in items):
            return None
        return columns.of(items, [name for name, _, _ in form.parts])

    def _columns(self, kind: type, rows: list[columns.Column]) -> None:
        form = _FORMS[kind]
        self._out += form.head
        for (_, _, name), (told, column) in zip(form.parts, rows, strict=True):
            texts, content = columns.to_bytes(told, column)
            self._out += name + told
            if told == columns.TEXTS:
                self._count(len(texts))
                for text in texts:
                    self._text(text)
            self._bytes(content)

    def _mapping(self, value: Mapping[Any, object]) -> None:
        self._tag(b"M")
        self._count(len(value))
        for key, item in value.items():
            with self.at(f"[{key!r}]"):
                self.put(key)
                self.put(item)

    def _once(self, value: object, tag: bytes, write: Callable[[Any], None]) -> None:
        """An object whose identity counts: the second time it is a reference."""
        if id(value) in self._seen:
            self._tag(b"R")
            self._count(self._seen[id(value)])
            return
        self._hold(value)
        self._tag(tag)
        write(value)

    def _hold(self, value: object) -> None:
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)  # its id must not be given to another one meanwhile

    def _lineage(self, value: Lineage) -> None:
        self._tag(b"V")
        self.put(dict(value.blocks))
        self.put(sorted(value.waived))

    def _weights(self, value: Weights) -> None:
        with self.at(".layout"):
            self.put(value.layout)
        self._lineage(value.lineage)
        self.tensor(value.vector, value.lineage)

    def _object(self, value: Any) -> None:
        form = _FORMS[type(value)]
        self._out += form.head
        for name, place, told in form.parts:
            self._path.append(place)  # as `at` does, which takes as long as what is written
            self._out += told
            self.put(getattr(value, name))
            self._path.pop()

    def _place(self) -> str:
        return "".join(self._path).lstrip(".") or "it"


_COLLECTIONS: dict[type, bytes] = {
    list: b"l",
    tuple: b"t",
    ClientsInOrder: b"n",
    set: b"s",
    frozenset: b"f",
    Clients: b"f",
    deque: b"q",
}


@dataclass
class Reader:
    """Reads what a `Writer` wrote. `known` are the things that it named, `get` gives tensors by digest."""

    content: bytes
    get: Callable[[str], Tensor]
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
        self._seen[place] = made = _FORMS[cls].make(cls, told)
        return made

    def _rows(self) -> list[object]:
        cls = self._class()
        found = {self._text(): self._column() for _ in range(self._count())}
        if not found:
            raise Unreadable("rows that have no columns")
        rows = zip(*found.values(), strict=True)
        made = [_FORMS[cls].make(cls, dict(zip(found, row, strict=True))) for row in rows]
        self._seen += made
        return made

    def _column(self) -> list[object]:
        kind = self._take(1)
        return columns.from_bytes(kind, lambda: [self._text() for _ in range(self._count())], self._bytes)

    def _class(self) -> type:
        name = self._text()
        if name not in _CLASSES:
            raise Unreadable(f"{name} is not known here.{nearest(name, _CLASSES)}")
        return _CLASSES[name]

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
    b"P": lambda self: self._items(b"P"),
    b"Q": lambda self: self._items(b"Q"),
    b"C": lambda self: self._items(b"C"),
    b"M": lambda self: {self._value(): self._value() for _ in range(self._count())},
    b"R": Reader._again,
    b"V": Reader._lineage,
    b"W": Reader._weights,
    b"O": Reader._object,
}
