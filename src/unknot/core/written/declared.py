"""Which classes have a written form, and what is raised for what has none."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TypeVar

import torch

from unknot.core.errors import UnknotError
from unknot.core.written.forms import Form

T = TypeVar("T")
MAGIC = b"unknot1\n"
CPU = torch.device("cpu")
DEEP = 100
"""So many things may lie within one another."""


class NotPlain(UnknotError):
    """Something has no written form: the message says what, where, and what to do."""


class Unreadable(UnknotError):
    """Bytes are no written form, or one of something that is not known here."""


CLASSES: dict[str, type] = {}
FORMS: dict[type, Form] = {}


def plain_data(cls: type[T]) -> type[T]:
    """Declare that objects of a dataclass `cls` are plain data: they are written field by field.

    A method, selector or aggregator of your own puts this on the classes of what it remembers.
    """
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__qualname__} is no dataclass: only those are written field by field")
    name = f"{cls.__module__}:{cls.__qualname__}"
    CLASSES[name], FORMS[cls] = cls, Form.of(name, cls)
    return cls
