"""The sizes of a model as a file says them, checked in one place for all kinds of files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unknot.core.errors import DataError
from unknot.models.llama import LlamaConfig

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Settings:
    """What a file says of its model, by name; names in it begin with `prefix`."""

    path: Path
    values: Mapping[str, Any]
    prefix: str = ""

    def whole(self, name: str, usual: int | None = None) -> int:
        """A whole number above 0."""
        found = self._found(name, usual)
        if type(found) is not int or found < 1:
            raise self._wrong(name, "a whole number above 0", found)
        return found

    def above(self, name: str, usual: float | None = None) -> float:
        """A number above 0, and finite."""
        found = self._found(name, usual)
        if type(found) not in (int, float) or not 0 < found <= sys.float_info.max:
            raise self._wrong(name, "a number above 0", found)
        return float(found)

    def named(self, name: str) -> dict[str, Any]:
        """Settings within a setting; left out: none."""
        found = self.values.get(self.prefix + name) or {}
        if not isinstance(found, dict):
            raise self._wrong(name, "settings by name", found)
        return found

    def _found(self, name: str, usual: float | None) -> Any:
        found = self.values.get(self.prefix + name)
        if found is None and usual is None:
            raise DataError(f"{self.path}: the setting {self.prefix}{name} is missing")
        return usual if found is None else found

    def _wrong(self, name: str, wanted: str, found: object) -> DataError:
        return DataError(f"{self.path}: {self.prefix}{name} should be {wanted}, not {_short(found)}")


def llama_outline(path: Path, sizes: LlamaConfig) -> Shapes:
    """The largest tensors of a Llama whose heads fit together."""
    heads, fewer, each = sizes.heads, sizes.kv_heads, sizes.head_width
    if heads % fewer:
        raise DataError(f"{path}: {heads} heads cannot share {fewer} of keys and values")
    if each % 2:
        raise DataError(f"{path}: heads of {each} numbers cannot be turned in pairs")
    block = "model.layers.0"
    return {
        "model.embed_tokens.weight": (sizes.vocabulary, sizes.width),
        f"{block}.self_attn.q_proj.weight": (heads * each, sizes.width),
        f"{block}.self_attn.k_proj.weight": (fewer * each, sizes.width),
        f"{block}.mlp.gate_proj.weight": (sizes.hidden, sizes.width),
    }


def gpt2_outline(path: Path, vocabulary: int, context: int, width: int, heads: int, hidden: int) -> Shapes:
    """The largest tensors of a GPT-2 whose heads part its width."""
    if width % heads:
        raise DataError(f"{path}: width {width} cannot be parted into {heads} heads")
    return {
        "transformer.wte.weight": (vocabulary, width),
        "transformer.wpe.weight": (context, width),
        "transformer.h.0.attn.c_attn.weight": (3 * width, width),
        "transformer.h.0.mlp.c_fc.weight": (hidden, width),
    }


def _short(found: object) -> str:
    """A value as a message has it, which may be of any length."""
    if isinstance(found, int) and found.bit_length() > 200:
        return "one of more than 60 digits"
    said = repr(found)
    return said if len(said) <= 60 else f"{said[:60]}..."
