"""Plain data as bytes, and the tensors that they name."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.digests import DTYPES, digest_of
from unknot.core.lineage import Clients, ClientsInOrder, Lineage
from unknot.core.weights import Weights
from unknot.core.written import columns
from unknot.core.written.declared import CPU, DEEP, FORMS, MAGIC, NotPlain
from unknot.core.written.forms import sized


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
        self._begun: set[int] = set()
        self._owner: int | None = None
        self._nobodys = False
        self._structure = ""
        self._parts: dict[str, _Part] = {}
        self._part: _Part | None = None
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
    def of_nobody(self) -> Iterator[None]:
        """Within: tensors are nobody's alone, whoever shaped them, and stay when a client's key goes."""
        before, self._nobodys = self._nobodys, True
        try:
            yield
        finally:
            self._nobodys = before

    @contextmanager
    def structure(self, instead: str) -> Iterator[None]:
        """Within: no numbers made of data, neither weights nor tensors nor arrays; they belong `instead`."""
        before, self._structure = self._structure, instead
        try:
            yield
        finally:
            self._structure = before

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within, and wherever the part goes on: nothing that can be changed is there twice.

        Read again, it would be two things, of which one is changed and the other not.
        """
        before, self._part = self._part, self._parts.setdefault(name, _Part())
        try:
            yield
        finally:
            self._part = before

    def trial(self) -> Writer:
        """Another one, for seeing whether something can be written in this place."""
        other = Writer(self.known, self.home)
        other._path, other._structure = [*self._path], self._structure
        other._part = None if self._part is None else _Part()
        return other

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Within: an error says that it is about this."""
        self._path.append(place)
        try:
            yield
        finally:
            self._path.pop()

    @property
    def place(self) -> str:
        """What is being written, for an error."""
        return self._place()

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
        elif id(value) in self._known and not (self._structure and isinstance(value, Weights)):
            self._tag(b"K")
            self._text(self._known[id(value)])
        elif kind is str:
            self._tag(b"S")
            self._text(value)  # type: ignore[arg-type]
        elif kind is bytes:
            self._tag(b"B")
            self._bytes(value)  # type: ignore[arg-type]
        elif kind is np.ndarray or isinstance(value, np.generic):
            self._array(value)
        elif kind is Tensor:
            self._bare(value)  # type: ignore[arg-type]
        elif (plain := _COLLECTIONS.get(kind)) is not None:
            self._collection(plain, value)
        elif kind is dict:
            self._mapping(value)  # type: ignore[arg-type]
        elif isinstance(value, Lineage):
            self._lineage(value)
        elif isinstance(value, Weights):
            self._refuse_numbers("are weights")
            self._once(value, b"W", self._weights)
        elif kind in FORMS:
            self._once(value, b"O", self._object)
        else:
            raise NotPlain(f"{self._place()} is a {kind.__name__}, {self._why_not(kind)}")

    def _why_not(self, kind: type) -> str:
        for plain in (int, float, str, bytes, list, tuple, dict, set, frozenset, np.ndarray, Tensor):
            if issubclass(kind, plain):
                return (
                    f"which would come back as a plain {plain.__name__}: keep that, or its parts, and make "
                    "what you need of them"
                )
        return (
            "which has no written form: keep plain data (numbers, texts, lists, sets, dicts"
            f"{'' if self._structure else ', tensors, weights'}), or declare its class with "
            "@unknot.plain_data"
        )

    def _refuse_numbers(self, what: str) -> None:
        if self._structure:
            raise NotPlain(f"{self._place()} {what}: {self._structure}")

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
        owner = self._owner
        if owner is None and len(clients) == 1 and not self._nobodys:
            owner = next(iter(clients))
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
        self._refuse_numbers("is an array" if isinstance(value, np.ndarray) else f"is a NumPy {array.dtype}")
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise NotPlain(f"{self._place()} is an array of {array.dtype}: keep numbers or truth values")
        if not (array.flags.c_contiguous and array.dtype.isnative):
            raise NotPlain(
                f"{self._place()} is an array that lies in memory otherwise than a new one, and sums of it "
                "may have other bits: keep np.ascontiguousarray(...) of it, in the byte order of this machine"
            )
        if isinstance(value, np.ndarray) and self._part is not None:
            self._refuse_twice("array", self._part.array(array, self._place()))
        self._tag(b"A" if isinstance(value, np.ndarray) else b"G")
        self._text(array.dtype.newbyteorder("<").str)
        self._count(array.ndim)
        for size in array.shape:
            self._count(size)
        self._bytes(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes())

    def _bare(self, tensor: Tensor) -> None:
        """A tensor by itself: what cannot be seen from its numbers must be as it usually is."""
        self._refuse_numbers("is a tensor")
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
            raise NotPlain(
                f"{self._place()} is a tensor of {tensor.dtype} and {tensor.layout}: keep a plain one"
            )
        steps = tensor.stride()
        order = sorted(range(tensor.dim()), key=lambda axis: (-steps[axis], axis))
        turned = tensor.permute(order)  # as it lies in memory
        if tensor.requires_grad or not turned.is_contiguous():
            found = "has a gradient" if tensor.requires_grad else "lies in memory with gaps"
            raise NotPlain(
                f"{self._place()} is a tensor that {found}, which is not written: keep tensor.detach() or "
                "tensor.contiguous() of it"
            )
        if self._part is not None:
            self._refuse_twice("tensor", self._part.tensor(tensor, self._place()))
        if tensor.is_contiguous():
            self.tensor(tensor)
        else:  # sums go by how it lies
            self._tag(b"Y")
            self.put(tuple(order))
            self.tensor(turned)

    def _alone(self, value: object) -> None:
        """Refuse a collection that can be changed and was in this part before."""
        if self._part is not None:
            self._refuse_twice(type(value).__name__, self._part.object(value, self._place()))

    def _refuse_twice(self, what: str, before: str | None) -> None:
        if before is not None:
            raise NotPlain(
                f"{self._place()} is the same {what} as {before}, or shares its numbers: read again, they "
                "would be two, and what changes one would not change the other. Keep it in one place"
            )

    def _collection(self, tag: bytes, value: Any) -> None:
        if tag in b"lsq":
            self._alone(value)
        items = self._in_order(value) if tag in b"sf" else list(value)
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
                self._path.append(f"[{place}]")  # as `at` does, which takes as long as what is written
                self.put(item)
                self._path.pop()
        if tag == b"q":
            self.put(value.maxlen)

    def _in_order(self, value: Any) -> list[Any]:
        """What is in a set, in an order that does not depend on how it came about."""
        kinds = set(map(type, value))
        if kinds <= {int} or kinds <= {str}:
            return sorted(value)
        return sorted(value, key=self._content)

    def _content(self, value: object) -> bytes:
        alone = self.trial()
        alone.put(value)
        return bytes(alone._out)

    def _rows(self, items: list[object]) -> list[columns.Column] | None:
        """The columns of several objects of one class, if they can be written so and none has been yet."""
        form = FORMS.get(type(items[0])) if len(items) > 1 else None
        if form is None or any(id(item) in self._seen or id(item) in self._known for item in items):
            return None
        if any(form.beside(item) for item in items):
            return None
        return columns.of(items, [name for name, _, _ in form.parts])

    def _columns(self, kind: type, rows: list[columns.Column]) -> None:
        form = FORMS[kind]
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
        self._alone(value)
        self._tag(b"M")
        self._count(len(value))
        for key, item in value.items():
            self._path.append(f"[{key!r}]")
            self.put(key)
            self.put(item)
            self._path.pop()

    def _once(self, value: object, tag: bytes, write: Callable[[Any], None]) -> None:
        """An object whose identity counts: the second time it is a reference."""
        if id(value) in self._begun:
            raise NotPlain(
                f"{self._place()} is a {type(value).__name__} that it lies in itself: keep a name or a "
                "number of it there instead"
            )
        if id(value) in self._seen:
            self._tag(b"R")
            self._count(self._seen[id(value)])
            if self._nobodys and isinstance(value, Weights):
                self._release(digest_of(value.vector))
            return
        self._hold(value)
        self._begun.add(id(value))
        self._tag(tag)
        write(value)
        self._begun.discard(id(value))

    def _release(self, digest: str) -> None:
        """Numbers that were written as a client's are nobody's alone."""
        if (kept := self._tensors.get(digest)) is not None:
            self._tensors[digest] = replace(kept, owner=None)

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
        form = FORMS[type(value)]
        if (other := form.beside(value)) is not None:
            raise NotPlain(
                f"{self._place()} is a {type(value).__name__} with an attribute {other!r} that is no field: "
                "it would be lost; make it one"
            )
        self._out += form.head
        for name, place, told in form.parts:
            self._path.append(place)
            self._out += told
            try:
                held = getattr(value, name)
            except AttributeError:
                raise NotPlain(f"{self._place()} is not there any more: give it a value") from None
            self.put(held)
            self._path.pop()

    def _place(self) -> str:
        return "".join(self._path).lstrip(".") or "it"


class _Part:
    """What of a part can be changed, and where it is."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[object, str]] = {}
        self._arrays: dict[int, list[tuple[NDArray[Any], str]]] = {}
        self._storages: dict[tuple[torch.device, int], tuple[Tensor, str]] = {}

    def object(self, value: object, place: str) -> str | None:
        """Where it has been already; None where it has not."""
        if (found := self._objects.get(id(value))) is not None:
            return found[1]
        self._objects[id(value)] = (value, place)
        return None

    def array(self, array: NDArray[Any], place: str) -> str | None:
        """Where there is one already that shares its numbers."""
        root: Any = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        others = self._arrays.setdefault(id(root), [])
        for other, there in others:
            if np.may_share_memory(array, other):
                return there
        others.append((array, place))
        return None

    def tensor(self, tensor: Tensor, place: str) -> str | None:
        """The same of a tensor."""
        start = (tensor.device, tensor.untyped_storage().data_ptr())
        if (found := self._storages.get(start)) is not None and tensor.numel():
            return found[1]
        self._storages[start] = (tensor, place)
        return None


_COLLECTIONS: dict[type, bytes] = {
    list: b"l",
    tuple: b"t",
    ClientsInOrder: b"n",
    set: b"s",
    frozenset: b"f",
    Clients: b"f",
    deque: b"q",
}
