"""Tensors by the digest of their type, shape and bytes: the same numbers have the same name anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from unknot.core.errors import StoreError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The types that are kept, by their names in a safetensors file."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(tensor: Tensor) -> str:
    """What its type is called."""
    name = _NAMES.get(tensor.dtype)
    if name is None or tensor.layout != torch.strided:
        raise StoreError(f"a tensor of {tensor.dtype} and {tensor.layout} cannot be kept: store a plain one")
    return name


def raw(tensor: Tensor) -> memoryview:
    """Its numbers as bytes, without a copy where they lie in a row in memory."""
    if not tensor.numel():
        return memoryview(b"")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def digest_of(tensor: Tensor) -> str:
    """A tensor's sha256, over type, shape and numbers. Of one that was asked for before, it is known."""
    version, known = _KNOWN.get(tensor, (0, ""))  # type: ignore[no-untyped-call]
    if not known or version != tensor._version:
        known = digest(dtype_name(tensor), tensor.shape, raw(tensor))
        _KNOWN[tensor] = (tensor._version, known)
    return str(known)


_KNOWN: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""A tensor that is still there, and was not changed in place, has the digest that it had."""


def digest(dtype: str, shape: Sequence[int], content: bytes | memoryview) -> str:
    """The sha256 of a tensor in its parts."""
    found = hashlib.sha256(f"{dtype}{list(shape)}".encode())
    found.update(content)
    return found.hexdigest()
