"""Entries of the log: plain data in a written form, and what of it is read back, checked."""

from __future__ import annotations

from typing import Any

from unknot.core.errors import StoreError
from unknot.core.written import Reader, Unreadable, Writer
from unknot.store.checkpoint import Named


def plain(value: object) -> bytes:
    """Plain data as an entry of the log."""
    out = Writer()
    out.put(value)
    return out.written().content


def read_plain(content: bytes) -> Any:
    try:
        return Reader(content, no_tensors).read()
    except Unreadable as error:
        raise StoreError(f"an entry of the log cannot be read: {error}") from None


def read_begun(content: bytes) -> dict[str, Any]:
    found = read_plain(content)
    if not isinstance(found, dict):
        raise StoreError("the log does not say how the run was begun: it was changed")
    return found


def read_named(content: bytes) -> Named:
    named = read_plain(content)
    if not isinstance(named, Named):
        raise StoreError("an entry of the log is no checkpoint: it was changed")
    return named


def no_tensors(digest: str) -> Any:
    raise Unreadable("the log has no tensors")
