"""The written form of what a run remembers: msgpack (by msgspec), with tensors and private parts aside.

What is read again in another process is the same to the bit, and one object where it was one: what two
things share is shared again. Only data is ever made of bytes: a class is written if it was declared
(`plain_data`), and its objects are made of their fields alone. What msgpack has no word for is a list that
begins with a letter.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec
import numpy as np
import torch
from torch import Tensor

from unknot.core.digests import DTYPES, digest_of
from unknot.core.errors import UnknotError
from unknot.core.lineage import NOBODY, Clients, ClientsInOrder, Lineage
from unknot.core.weights import Weights

FORMAT = 4
"""The number of this form; bytes of another one are refused."""
CPU = torch.device("cpu")
NOTHING: Mapping[Any, Any] = types.MappingProxyType({})
T = TypeVar("T")
MORE = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)


class NotPlain(UnknotError):
    """Something has no written form: `place` says where it is, `why` what it is and what to do."""

    def __init__(self, why: str, place: str = "") -> None:
        self.why, self.place = why, place
        super().__init__(f"{place.lstrip('. ') or 'it'} {why}")

    def within(self, place: str) -> NotPlain:
        """The same, of something that lies there."""
        return NotPlain(self.why, place + self.place)


class Unreadable(UnknotError):
    """Bytes are no written form, or one of something that is not known here."""


@contextmanager
def at(place: str) -> Iterator[None]:
    """Within: an error says that it is about this."""
    try:
        yield
    except NotPlain as error:
        raise error.within(place) from None


@dataclass(frozen=True, eq=False)
class Private:
    """A value that is this client's alone: sealed under its key.

    Tensors may be nobody's (None: under no key at all), or of the one client that shaped them (`ANYBODY`).
    """

    client: int | None
    value: Any
    lineage: Lineage = NOBODY
    """Whose data shaped a tensor."""


ANYBODY = -1


class _Lost:
    """In place of what was one client's alone, where its key is gone."""


LOST = _Lost()


class Numbers(NamedTuple):
    """A tensor that is to be kept: whose alone it is, and who had a part in it."""

    tensor: Tensor
    owner: int | None
    clients: frozenset[int]


class Written(NamedTuple):
    """A value as bytes, the tensors that these name by digest, and what is one client's alone, by client."""

    content: bytes
    tensors: dict[str, Numbers]
    private: dict[int, bytes]


_CLASSES: dict[str, Any] = {}
_NAMES: dict[type, tuple[str, ...]] = {}


def plain_data(cls: type[T]) -> type[T]:
    """Declare that objects of a dataclass `cls` are plain data: they are written field by field.

    A method, selector or aggregator of your own puts this on the classes of what it remembers. Read again,
    an object has the fields that it had: neither ``__init__`` nor ``__post_init__`` is called once more.
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__qualname__} is no dataclass: only those are written field by field")
    names = tuple(field.name for field in fields(cls))
    if others := set(slots_of(cls)) - set(names):
        raise TypeError(f"{cls.__qualname__} has a slot {sorted(others)[0]!r} that is no field")
    if issubclass(cls, (*MORE, np.ndarray, Tensor)):
        raise TypeError(f"{cls.__qualname__} holds more than fields: only these would be written")
    name = f"{cls.__module__}:{cls.__qualname__}"
    _CLASSES[name], _NAMES[cls] = cls, (name, *names)
    return cls


def write(value: object, home: torch.device = CPU, known: Mapping[str, object] = NOTHING) -> Written:
    """A value in written form; raises `NotPlain` for what has none.

    Tensors of the device `home` go back there. What is `known` to whoever reads it is written as a name.
    """
    out = Writer(home, known=known)
    content = packed(out.plain(value))
    return Written(content, out.tensors, {client: packed(parts) for client, parts in out.private.items()})


def read(
    content: bytes,
    get: Callable[[str], Tensor] | None = None,
    private: Mapping[int, bytes] = NOTHING,
    home: torch.device = CPU,
    known: Mapping[str, Any] = NOTHING,
) -> Any:
    """The value again. `get` gives tensors by digest, `private` what each client's key opened.

    What is not in `private` is `LOST`. Raises `Unreadable`.
    """
    source = _Reader(get, private, home, known)
    try:
        return source.value(_unpacked(content))
    except (Unreadable, NotPlain):
        raise
    except Exception as error:  # of bytes that somebody changed
        raise Unreadable(f"it is no written form of anything here: {error!r}") from None


def pack(value: object) -> bytes:
    """Plain data without tensors, and that is nobody's alone."""
    content, tensors, private = write(value)
    if tensors or private:
        raise NotPlain("has tensors, or parts that are one client's: it is no plain data")
    return content


def structure(value: object, instead: str) -> None:
    """Raise `NotPlain` unless a value is plain data, without arrays, tensors and weights."""
    Writer(CPU, instead).plain(value)


def attributes_of(thing: object) -> dict[str, Any]:
    """All that an object holds, in slots too; not what it finds anew when it is asked (`cached_property`)."""
    found = {name: getattr(thing, name) for name in slots_of(type(thing)) if hasattr(thing, name)}
    held: Mapping[str, object] = getattr(thing, "__dict__", {})
    aside = _found_anew(type(thing)) if held else ()
    return {**found, **{name: value for name, value in held.items() if name not in aside}}


def packed(told: Any) -> bytes:
    try:
        return msgspec.msgpack.encode([FORMAT, told])
    except (RecursionError, UnicodeEncodeError) as error:
        raise NotPlain(f"cannot be written: {error}") from None


def _unpacked(content: bytes) -> Any:
    found = msgspec.msgpack.decode(content)
    if not isinstance(found, list) or len(found) != 2:
        raise Unreadable("it is no written form of unknot")
    if found[0] != FORMAT:
        raise Unreadable(f"it is of the format {found[0]!r}, and this version of unknot reads {FORMAT}")
    return found[1]


def slots_of(cls: type) -> list[str]:
    """The slots of a class and of those that it comes of, by the names that they have from outside."""
    found = []
    for kind in cls.__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{kind.__name__.lstrip('_')}{name}" if private else name)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def _found_anew(cls: type) -> set[str]:
    return {n for kind in cls.__mro__ for n, v in vars(kind).items() if isinstance(v, cached_property)}


_WORD = 2**63
_FLAT = (type(None), bool, float, str, bytes)
_SETS: dict[type, str] = {set: "s", frozenset: "f", Clients: "F"}
_ARRAYS = "biuf"


class Writer:
    """Values as lists for msgspec; an object whose identity counts is a reference the second time."""

    def __init__(
        self, home: torch.device, structure: str = "", known: Mapping[str, object] = NOTHING
    ) -> None:
        self.tensors: dict[str, Numbers] = {}
        self.private: dict[int, list[Any]] = {}
        self._home, self._structure = home, structure
        self._known = {id(value): name for name, value in known.items()}
        self._places: dict[int, int] = {}
        self._held: list[object] = []  # its id must not be given to another one meanwhile
        self._classes: dict[type, int] = {}
        self._masks: dict[int, int] = {}
        self._storages: dict[int, object] = {}

    def plain(self, value: Any) -> Any:
        kind = type(value)
        if kind in _FLAT:
            return value
        if kind is int:
            return value if -_WORD <= value < _WORD else ["i", hex(value)]
        if kind is tuple or kind is ClientsInOrder:
            return ["t" if kind is tuple else "c", *self._each(value)]
        if (place := self._places.get(id(value))) is not None:
            return ["R", place]
        if (name := self._known.get(id(value))) is not None:
            return ["K", name]
        if kind is Private:
            return self._of(value)
        if kind in _SETS:
            self._hold(value)
            return [_SETS[kind], *self._each(_in_order(value))]
        if isinstance(value, np.generic) and kind is not np.ndarray:
            return self._scalar(value)
        return self._object(kind, value)

    def _object(self, kind: type, value: Any) -> Any:
        self._hold(value)
        if kind is list:
            return ["l", *self._each(value)]
        if kind is dict:
            return ["d", *self._pairs(value)]
        if kind is deque:
            return ["q", value.maxlen, *self._each(value)]
        if kind is Lineage:
            return ["L", *self._lineage(value)]
        if kind is Weights:
            return self._weights(value)
        if kind is np.ndarray:
            return self._array(value)
        if kind is Tensor:
            return self._bare(value)
        if kind in _NAMES:
            return self._fields(kind, value)
        self._refuse(kind)

    def _refuse(self, kind: type) -> NoReturn:
        more = "" if self._structure else ", tensors, weights"
        raise NotPlain(
            f"is a {kind.__name__}, which has no written form: keep plain data (numbers, texts, lists, sets, "
            f"dicts{more}), or declare its class with @unknot.plain_data"
        )

    def _hold(self, value: object) -> None:
        self._places[id(value)] = len(self._held)
        self._held.append(value)

    def _each(self, values: Any) -> Iterator[Any]:
        for place, value in enumerate(values):
            try:
                yield value if type(value) is float else self.plain(value)
            except NotPlain as error:
                raise error.within(f"[{place}]") from None

    def _pairs(self, values: Mapping[Any, Any]) -> Iterator[Any]:
        for key, value in values.items():
            try:
                yield self.plain(key)
                yield self.plain(value)
            except NotPlain as error:
                raise error.within(f"[{key!r}]") from None

    def _fields(self, kind: type, value: Any) -> list[Any]:
        """An object of a declared class: its class and field names the first time, then a number."""
        name, *names = _NAMES[kind]
        if beside := getattr(value, "__dict__", {}).keys() - set(names) - _found_anew(kind):
            raise NotPlain(
                f"is a {kind.__name__} with an attribute {min(beside)!r} that is no field: make it one"
            )
        if (number := self._classes.get(kind)) is None:
            self._classes[kind] = len(self._classes)
        told = ["o", [name, *names] if number is None else number]
        for field in names:
            try:
                told.append(self.plain(getattr(value, field)))
            except NotPlain as error:
                raise error.within(f".{field}") from None
        return told

    def _lineage(self, value: Lineage) -> list[Any]:
        blocks = []
        for (revision, block), mask in sorted(value.blocks.items()):  # masks are shared by many
            if (known := self._masks.get(mask)) is None:
                self._masks[mask] = len(self._masks)
            raw = mask.to_bytes((mask.bit_length() + 7) // 8, "little") if known is None else known
            blocks.append([revision, block, raw])
        return [blocks, sorted(value.waived)]

    def _of(self, value: Private) -> list[Any]:
        """What is one client's alone: a tensor by its owner, other things apart."""
        if isinstance(value.value, Tensor):
            self._hold(value.value)
            return ["X", *self._tensor(value.value, value.client, value.lineage)]
        assert value.client is not None
        mine, within = self.private.setdefault(value.client, []), Writer(self._home)
        mine.append(within.plain(value.value))
        if within.tensors or within.private:
            raise NotPlain("is one client's alone, and more than plain data")
        return ["S", value.client, len(mine) - 1]

    def _weights(self, value: Weights) -> list[Any]:
        self._refuse_numbers("are weights")
        told = [self.plain(value.layout), self.plain(value.lineage)]
        return ["W", *told, *self._tensor(value.vector, ANYBODY, value.lineage)]

    def _tensor(self, tensor: Tensor, owner: int | None, lineage: Lineage) -> list[Any]:
        """A tensor by its digest; what only one client shaped is its own."""
        digest, clients = digest_of(tensor), frozenset(lineage.clients)
        if owner == ANYBODY:
            owner = next(iter(clients)) if len(clients) == 1 else None
        if (known := self.tensors.get(digest)) is not None:
            owner = (
                owner if known.owner == owner else None
            )  # the same numbers in two hands are no one's alone
            clients |= known.clients
        self.tensors[digest] = Numbers(tensor, owner, clients)
        return [digest, tensor.device == self._home]

    def _bare(self, tensor: Tensor) -> list[Any]:
        """A tensor by itself, in the order in which it lies in memory: sums go by that."""
        self._refuse_numbers("is a tensor")
        if tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
            raise NotPlain(f"is a tensor of {tensor.dtype} and {tensor.layout}: keep a plain one")
        order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride()[axis])
        turned = tensor if tensor.is_contiguous() else tensor.permute(order)
        if tensor.requires_grad or not turned.is_contiguous():
            raise NotPlain("is a tensor with a gradient or gaps: keep tensor.detach().contiguous() of it")
        self._alone(tensor.untyped_storage().data_ptr() if tensor.numel() else id(tensor), tensor)
        return ["Y", order if turned is not tensor else None, *self._tensor(turned, None, NOBODY)]

    def _array(self, value: Any) -> list[Any]:
        self._refuse_numbers("is an array")
        if value.dtype.kind not in _ARRAYS or value.dtype.itemsize > 8 or not value.dtype.isnative:
            raise NotPlain(f"is an array of {value.dtype}: keep numbers or truth values of this machine")
        if not value.flags.c_contiguous:
            raise NotPlain("is an array with gaps in memory: keep np.ascontiguousarray(...) of it")
        root = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        self._alone(id(root), value)
        return ["n", value.dtype.str, list(value.shape), value.tobytes()]

    def _alone(self, memory: int, numbers: object) -> None:
        """Refuse numbers under two names: read again, they would be two."""
        if self._storages.setdefault(memory, numbers) is not numbers:
            raise NotPlain("shares its numbers with another one, and would not when it is read: keep a copy")

    def _scalar(self, value: Any) -> list[Any]:
        self._refuse_numbers(f"is a NumPy {value.dtype}")
        if value.dtype.kind not in _ARRAYS or value.dtype.itemsize > 8:
            raise NotPlain(f"is a NumPy {value.dtype}: keep a number")
        return ["g", value.dtype.str, value.tobytes()]

    def _refuse_numbers(self, what: str) -> None:
        if self._structure:
            raise NotPlain(f"{what}: {self._structure}")


def _in_order(values: Any) -> list[Any]:
    """What is in a set, in an order that does not depend on how it came about."""
    if set(map(type, values)) in ({int}, {str}, set()):
        return sorted(values)
    return sorted(values, key=lambda value: packed(Writer(CPU).plain(value)))


class _Reader:
    """The inverse of `_Writer`; what is held by place is noted in the same order."""

    def __init__(
        self,
        get: Callable[[str], Tensor] | None,
        private: Mapping[int, bytes],
        home: torch.device,
        known: Mapping[str, Any],
    ) -> None:
        self._get, self._private, self._home, self._known = get, private, home, known
        self._made: list[Any] = []
        self._classes: list[tuple[Any, list[str]]] = []
        self._masks: list[int] = []
        self._given: set[str] = set()

    def value(self, told: Any) -> Any:
        if type(told) is not list:
            return told
        return _READ[told[0]](self, told)

    def _each(self, told: Any, first: int = 1) -> Iterator[Any]:
        return map(self.value, told[first:])

    def _hold(self, value: T) -> T:
        self._made.append(value)
        return value

    def _list(self, told: Any) -> Any:
        found: list[Any] = self._hold([])
        found.extend(self._each(told))
        return found

    def _dict(self, told: Any) -> Any:
        found: dict[Any, Any] = self._hold({})
        parts = self._each(told)
        found.update(zip(parts, parts, strict=True))
        return found

    def _deque(self, told: Any) -> Any:
        found = self._hold(deque[Any](maxlen=told[1]))
        found.extend(self._each(told, 2))
        return found

    def _set(self, told: Any) -> Any:
        place = len(self._made)
        self._made.append(None)
        kind = {"s": set, "f": frozenset, "F": Clients}[told[0]]
        self._made[place] = found = kind(self._each(told))
        return found

    def _object(self, told: Any) -> Any:
        if type(told[1]) is list:
            name, *names = told[1]
            if name not in _CLASSES:
                raise Unreadable(f"{name} is no class that was declared here (unknot.plain_data)")
            self._classes.append((_CLASSES[name], names))
        cls, names = self._classes[-1 if type(told[1]) is list else told[1]]
        if [*_NAMES[cls][1:]] != names:
            raise Unreadable(f"{cls.__qualname__} was written with the fields {names}: it has others here")
        found = self._hold(object.__new__(cls))
        for name, value in zip(names, self._each(told, 2), strict=True):
            object.__setattr__(found, name, value)
        if cls.__module__.startswith("unknot.") and hasattr(found, "__post_init__"):
            found.__post_init__()  # our own checks of what somebody may have changed
        return found

    def _lineage(self, told: Any) -> Lineage:
        blocks = {}
        for revision, block, mask in told[1]:
            if isinstance(mask, bytes):
                self._masks.append(int.from_bytes(mask, "little"))
            blocks[revision, block] = self._masks[-1 if isinstance(mask, bytes) else mask]
        found = Lineage.of_blocks(blocks)
        return self._hold(found.waiving(told[2]) if told[2] else found)

    def _weights(self, told: Any) -> Weights:
        place = len(self._made)
        self._made.append(None)
        layout, lineage = self.value(told[1]), self.value(told[2])
        self._made[place] = found = Weights(self._tensor(told[3:]), layout, lineage)
        return found

    def _tensor(self, told: Any) -> Tensor:
        digest, at_home = told
        if self._get is None:
            raise Unreadable("it names a tensor, and there are none")
        found = self._get(digest)
        found = found.to(self._home) if at_home else found
        if digest in self._given:  # two that were equal, but not one, are two again
            found = found.clone()
        self._given.add(digest)
        return found

    def _bare(self, told: Any) -> Tensor:
        found = self._tensor(told[2:])
        if told[1] is not None:
            found = found.permute(*map(told[1].index, range(len(told[1]))))
        return self._hold(found)

    def _private_part(self, told: Any) -> Any:
        _, client, place = told
        if client not in self._private:
            return LOST
        return Private(
            client, _Reader(None, {}, self._home, {}).value(_unpacked(self._private[client])[place])
        )

    def _array(self, told: Any) -> Any:
        _, dtype, shape, content = told
        return self._hold(np.frombuffer(content, dtype=np.dtype(dtype)).reshape(shape).copy())

    def _scalar(self, told: Any) -> Any:
        (found,) = np.frombuffer(told[2], dtype=np.dtype(told[1]))
        return found


_READ: dict[str, Callable[[_Reader, Any], Any]] = {
    "t": lambda read, told: tuple(read._each(told)),
    "c": lambda read, told: ClientsInOrder(read._each(told)),
    "l": _Reader._list,
    "d": _Reader._dict,
    "q": _Reader._deque,
    "s": _Reader._set,
    "f": _Reader._set,
    "F": _Reader._set,
    "o": _Reader._object,
    "L": _Reader._lineage,
    "W": _Reader._weights,
    "X": lambda read, told: read._hold(read._tensor(told[1:])),
    "Y": _Reader._bare,
    "S": _Reader._private_part,
    "n": _Reader._array,
    "g": _Reader._scalar,
    "i": lambda read, told: int(told[1], 16),
    "K": lambda read, told: read._known[told[1]],
    "R": lambda read, told: read._made[told[1]],
}
