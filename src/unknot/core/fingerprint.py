"""What a thing holds, as a digest: to tell whether it is what it was, also where it has no written form."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unknot.core.digests import digest_of
from unknot.core.errors import StoreError
from unknot.core.form import CPU, MORE, NotPlain, Writer, attributes_of, packed, slots_of


def fingerprint(thing: object, strict: bool = False) -> bytes:
    """All that a thing holds, as a digest. What does not show that is like itself, or if `strict` refused."""
    try:
        return hashlib.sha256(packed(_Fingerprint(CPU, strict=strict).plain(thing))).digest()
    except _Hidden as error:
        raise NotPlain(f"is, or holds, a {error}, which does not show what it holds") from None


class _Hidden(Exception):
    """Something does not show what it holds."""


class _Fingerprint(Writer):
    """Shows what things hold that have no written form, too: to tell whether they are what they were."""

    def __init__(self, home: torch.device, strict: bool) -> None:
        super().__init__(home)
        self._strict = strict

    def _object(self, kind: type, value: Any) -> Any:
        try:
            return super()._object(kind, value)
        except (NotPlain, StoreError):
            return [f"{kind.__module__}.{kind.__qualname__}", self._held_by(kind, value)]

    def _held_by(self, kind: type, value: Any) -> Any:
        if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
            return id(value)
        if isinstance(value, np.ndarray):
            return [value.dtype.str, value.flags.c_contiguous, self.plain(value.tolist())]
        if isinstance(value, Tensor):
            dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
            numbers = (torch.view_as_real(dense) if dense.is_complex() else dense).contiguous()
            return [str(value.layout), value.requires_grad, list(value.stride()), digest_of(numbers)]
        if _shows_all(kind) and (hasattr(value, "__dict__") or slots_of(kind)):
            return self.plain(attributes_of(value))
        try:
            made = value.__reduce_ex__(4)
        except Exception:  # it does not say what it holds
            if self._strict:
                raise _Hidden(kind.__name__) from None
            return id(value)
        return [self.plain([*part] if isinstance(part, Iterator) else part) for part in made]


def _shows_all(kind: type) -> bool:
    """Whether attributes are all that objects of a class hold."""
    if issubclass(kind, MORE):
        return False
    tells = any(
        {"__reduce__", "__reduce_ex__", "__getstate__"} & vars(base).keys() for base in kind.__mro__[:-1]
    )
    return not tells
