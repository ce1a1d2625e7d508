"""Which classes have a written form, and what is raised for what has none."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TypeVar

import numpy as np
import torch

from unknot.core.errors import UnknotError
from unknot.core.written.forms import Form, slots_of

T = TypeVar("T")
MAGIC = b"unknot1\n"
CPU = torch.device("cpu")
DEEP = 100
"""So many things may lie within one another."""


class NotPlain(UnknotError):
    """Something has no written form: the message says what, where, and what to do."""


class Unreadable(UnknotError):
    """Bytes are no written form, or one of something that is not known here."""


MORE = (
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    list,
    tuple,
    dict,
    set,
    frozenset,
    np.ndarray,
    torch.Tensor,
)
"""What holds something beside its attributes."""
CLASSES: dict[str, type] = {}
FORMS: dict[type, Form] = {}


def plain_data(cls: type[T]) -> type[T]:
    """Declare that objects of a dataclass `cls` are plain data: they are written field by field.

    A method, selector or aggregator of your own puts this on the classes of what it remembers. Read again,
    an object has the fields that it had: neither ``__init__`` nor ``__post_init__`` is called once more.
    """
    return plain_data_of(cls.__module__, cls)


def plain_data_of(home: str, cls: type[T]) -> type[T]:
    """Declare `cls` as a class of the module `home`: what was written while it lay there is read on."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__qualname__} is no dataclass: only those are written field by field")
    if issubclass(cls, MORE):
        kind = next(kind for kind in MORE if issubclass(cls, kind)).__name__
        raise TypeError(f"{cls.__qualname__} is a {kind} too: only its fields would be written")
    others = set(slots_of(cls)) - {field.name for field in fields(cls)}
    if others:
        raise TypeError(
            f"{cls.__qualname__} has a slot {sorted(others)[0]!r} that is no field: it would be lost"
        )
    name = f"{home}:{cls.__qualname__}"
    CLASSES[name], FORMS[cls] = cls, Form.of(name, cls)
    return cls
