"""The written form of plain data: bytes, and the tensors that they name by digest.

What a run remembers is written so, and read again in another process without a bit lost: numbers never go
through text. Nothing but data is ever made of it: a class is known by a name that it was declared under
(`plain_data`), and its objects are made of their fields alone.

What both sides have anyhow (a federation's loss, its initial weights) is written as a name. The same weights,
lane or node in two places is one object afterwards too.
"""

from __future__ import annotations

from unknot.core.written.declared import MAGIC, NotPlain, Unreadable, plain_data, plain_data_of
from unknot.core.written.forms import attributes_of
from unknot.core.written.reader import Reader
from unknot.core.written.writer import Kept, Writer, Written

__all__ = [
    "MAGIC",
    "Kept",
    "NotPlain",
    "Reader",
    "Unreadable",
    "Writer",
    "Written",
    "attributes_of",
    "plain_data",
    "plain_data_of",
]
