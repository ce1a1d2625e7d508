"""Ids of clients and samples: read once, where they come in, and whole numbers from there on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, SupportsIndex

from unknot.core.errors import RequestError

Id = SupportsIndex
"""What may stand for an id: 3, ``np.int64(3)``, an array or a tensor of no axes."""

LARGEST = 2**63 - 1
MOST_CLIENTS = 2**24
"""Lineages have a bit a client: a number is no name to hash, but a place."""


def plain(value: Any) -> Any:
    """NumPy's and PyTorch's numbers, arrays and tensors as Python's numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def whole_number(value: object, what: str) -> int:
    """`value` as a plain whole number of at least 0; `what` begins the error's sentence.

    A text is no number, nor is a truth value: ``"0"`` and ``True`` are somebody's slip, not an id.
    """
    number = plain(value)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= LARGEST:
        raise RequestError(f"{what} must be a whole number of at least 0, not {value!r}")
    return number


def one_way(name: str) -> str:
    """A name in the one way of writing it that counts: an accented letter may be one sign, or two (NFC)."""
    return unicodedata.normalize("NFC", name)


def client_id(value: object) -> int:
    if type(value) is int and 0 <= value < MOST_CLIENTS:  # as nearly all of a million are
        return value
    number = whole_number(value, "a client's id")
    if number >= MOST_CLIENTS:
        raise RequestError(f"clients are numbered from 0 on, below {MOST_CLIENTS:,}; found {number}")
    return number


def items_of(values: object) -> list[Any]:
    """What is named: one thing, or several; a text is one."""
    found = plain(values)
    several = isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping)
    return list(found) if several else [found]


def client_ids(values: object) -> tuple[int, ...]:
    """The ids of one client or of several, ascending; one that is named twice is refused."""
    return _ascending([client_id(value) for value in items_of(values)], "client", "")


def sample_ids(values: object, who: str) -> tuple[int, ...]:
    """The ids of some samples of a client, ascending: at least one, and none twice. `who` is for messages."""
    if isinstance(plain(values), int | str):
        raise RequestError(f"the samples of {who} must be a list of ids, not {values!r}")
    ids = [whole_number(value, f"the id of a sample of {who}") for value in items_of(values)]
    if not ids:
        raise RequestError(f"no samples of {who} are named")
    return _ascending(ids, "sample", f" of {who}")


def _ascending(ids: list[int], what: str, whose: str) -> tuple[int, ...]:
    ordered = sorted(ids)
    twice = [a for a, b in pairwise(ordered) if a == b]
    if twice:
        raise RequestError(f"{what} {twice[0]}{whose} is named twice")
    return tuple(ordered)
