"""Columns of the written form: many objects of one class, as the bytes of each of their fields.

A round names every client that was at work. Field by field that is a hundred small things, as columns it is
four. Numbers are their bytes, texts a place among those that differ. Every row has bytes of its own in every
column, so that a few of them cannot stand for a billion objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WHOLE, REAL, TEXTS = b"i", b"d", b"t"
Column = tuple[bytes, list[object]]
"""What it is written as, and what is in it."""


def of(items: Sequence[object], names: Sequence[str]) -> list[Column] | None:
    """The columns of some objects by the `names` of their fields.

    None where they are of several classes, where one is there twice, or where a field has something other
    than one kind of plain number or text.
    """
    if len(set(map(type, items))) != 1 or len(set(map(id, items))) < len(items) or not names:
        return None
    found = []
    for name in names:
        column = [getattr(item, name) for item in items]
        if (kind := _kind(column)) is None:
            return None
        found.append((kind, column))
    return found


def _kind(column: Sequence[Any]) -> bytes | None:
    """By the very type: a truth value is a whole number too, and must stay what it is."""
    kinds = set(map(type, column))
    if kinds == {float}:
        return REAL
    if kinds == {str}:
        return TEXTS
    if kinds == {int} and min(column) >= -(2**63) and max(column) < 2**63:
        return WHOLE
    return None


def to_bytes(kind: bytes, column: Sequence[object]) -> tuple[list[str], bytes]:
    """The texts that differ, in a column of texts, and its bytes."""
    if kind != TEXTS:
        return [], np.asarray(column, dtype="<f8" if kind == REAL else "<i8").tobytes()
    texts: dict[object, int] = {}
    places = [texts.setdefault(text, len(texts)) for text in column]
    return [str(text) for text in texts], np.asarray(places, dtype="<u4").tobytes()


def from_bytes(kind: bytes, texts: Callable[[], list[str]], content: Callable[[], bytes]) -> list[object]:
    """The column again; raises `KeyError`, `IndexError` or `ValueError` for what is none."""
    if kind == TEXTS:
        known = texts()
        return [known[place] for place in np.frombuffer(content(), dtype="<u4").tolist()]
    found: list[object] = np.frombuffer(content(), dtype={REAL: "<f8", WHOLE: "<i8"}[kind]).tolist()
    return found
