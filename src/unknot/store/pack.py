"""The form of a pack: a safetensors file of tensors by digest that says whose they are, and guards its head.

A head is checked here, to the byte, before anything is read by it. Every byte after it belongs to one tensor,
so that nothing lies hidden in between and nothing is read outside.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from unknot.core.errors import StoreError
from unknot.store.files import opened, read_at
from unknot.store.keyring import OVERHEAD
from unknot.store.numbers import form

SEALED = "U8"
"""As which type sealed bytes lie in the file."""
_MOST = 1 << 26  # bytes of a head
_BEGIN = b'{"__metadata__":{"check":"'
_CHECK = slice(len(_BEGIN), len(_BEGIN) + 64)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FORMAT = 1


class Place(NamedTuple):
    """Where a tensor lies, from which byte to which, as what; whose key seals it, and who shaped it."""

    pack: str
    digest: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    owner: int | None
    clients: str


class Part(NamedTuple):
    """A tensor on its way into a pack, sealed where it has an owner."""

    digest: str
    dtype: str
    shape: tuple[int, ...]
    content: bytes | memoryview
    owner: int | None
    clients: str


def head(parts: Sequence[Part]) -> bytes:
    """The head of a pack of these parts, which follow in this order."""
    sets: dict[str, int] = {}
    items = {part.digest: [part.owner, sets.setdefault(part.clients, len(sets))] for part in parts}
    notes = json.dumps({"format": _FORMAT, "sets": list(sets), "items": items}, separators=(",", ":"))
    told: dict[str, object] = {"__metadata__": {"check": "0" * 64, "unknot": notes}}
    at = 0
    for part in parts:
        end = at + len(part.content)
        told[part.digest] = {"dtype": part.dtype, "shape": part.shape, "data_offsets": (at, end)}
        at = end
    text = bytearray(json.dumps(told, separators=(",", ":")).encode())
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST:
        raise StoreError(
            f"{len(parts)} tensors are too many for one pack, by {len(text) - _MOST} bytes of names"
        )
    text[_CHECK] = hashlib.sha256(text).hexdigest().encode()
    return len(text).to_bytes(8, "little") + bytes(text)


def places(path: Path) -> list[Place]:
    """What lies where in a pack, by its head; `StoreError` if that is not as `head` writes it."""
    with opened(path) as (descriptor, size):
        length = int.from_bytes(read_at(descriptor, 0, min(8, size), path), "little")
        if size < 8 or not len(_BEGIN) + 64 < length <= min(_MOST, size - 8) or length % 8:
            _refuse(path, "it has no head")
        text = bytearray(read_at(descriptor, 8, length, path))
    check = bytes(text[_CHECK])
    text[_CHECK] = b"0" * 64
    if not text.startswith(_BEGIN) or hashlib.sha256(text).hexdigest().encode() != check:
        _refuse(path, "its head was changed")
    try:
        return _read(path.name, bytes(text), 8 + length, size)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(path, str(error) if isinstance(error, ValueError) else "its head is none of ours")


def _read(pack: str, text: bytes, begin: int, size: int) -> list[Place]:
    """The places of a head; raises whatever it likes where that is nonsense."""
    told = _json(text)
    metadata = told.pop("__metadata__")
    if metadata.keys() != {"check", "unknot"}:
        raise ValueError("notes of somebody else")
    notes = _json(metadata["unknot"])
    if notes.keys() != {"format", "sets", "items"} or notes["format"] != _FORMAT:
        raise ValueError("it is of another version")
    sets, items = notes["sets"], notes["items"]
    if not isinstance(sets, list) or not all(isinstance(text, str) for text in sets):
        raise ValueError("no sets of clients")
    if items.keys() != told.keys():
        raise ValueError("tensors and notes do not fit")
    found, at = [], begin
    for digest, entry in told.items():
        if not _DIGEST.fullmatch(digest) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError("a tensor without a digest")
        start, stop = entry["data_offsets"]
        if type(start) is not int or type(stop) is not int or begin + start != at or not start <= stop:
            raise ValueError("tensors that do not lie one after the other")
        owner, which = items[digest]
        if type(which) is not int or not 0 <= which < len(sets):
            raise ValueError("no set of clients")
        dtype, shape = form(entry["dtype"], entry["shape"], stop - start)
        if owner is not None and (
            type(owner) is not int or owner < 0 or (dtype, len(shape)) != (SEALED, 1) or shape[0] < OVERHEAD
        ):
            raise ValueError("a sealed part that is none")
        at = begin + stop
        found.append(Place(pack, digest, dtype, shape, begin + start, at, owner, sets[which]))
    if at != size:
        raise ValueError("its tensors end elsewhere than the file")
    return found


def _json(text: str | bytes) -> dict[str, Any]:
    """An object of JSON, in which no name comes twice."""
    told = json.loads(text, object_pairs_hook=_unique, parse_float=_no_number, parse_constant=_no_number)
    if not isinstance(told, dict):
        raise ValueError("no notes")
    return told


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError("a number that is not whole")


def _refuse(path: Path, why: str) -> NoReturn:
    raise StoreError(f"{path} is damaged, or not a pack of ours: {why}; take it from a backup")
