"""Models of llama2.c's (stories260K), in its first format."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored, halved
from unknot.models.files.sizes import llama_outline
from unknot.models.llama import Llama, LlamaConfig


def read(path: Path, head: bytes) -> Checkpoint:
    """Sizes, then all numbers in single precision; those of a kind are stored for all layers at once."""
    if len(head) < 28:
        raise DataError(f"{path} is no model of llama2.c's: it ends after {len(head)} bytes")
    width, hidden, layers, heads, fewer, words, context = struct.unpack("<7i", head)
    good = min(width, hidden, layers, heads, fewer, abs(words), context) > 0
    if not good or width % heads or heads % fewer or max(layers, heads) > 2**16:
        raise DataError(
            f"{path} is no model of llama2.c's first format: it begins with other numbers than sizes"
        )
    each, vocabulary = width // heads, abs(words)
    blocks = {
        "input_layernorm": (width,),
        "self_attn.q_proj": (heads * each, width),
        "self_attn.k_proj": (fewer * each, width),
        "self_attn.v_proj": (fewer * each, width),
        "self_attn.o_proj": (width, heads * each),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (hidden, width),
        "mlp.down_proj": (width, hidden),
        "mlp.up_proj": (hidden, width),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, width)}
    for part, shape in blocks.items():
        shapes |= {f"model.layers.{i}.{part}.weight": shape for i in range(layers)}
    shapes |= {"model.norm.weight": (width,), "angles": (2, context, each // 2)}
    if words < 0:
        shapes["lm_head.weight"] = (vocabulary, width)
    wanted, size = 28 + 4 * sum(map(prod, shapes.values())), path.stat().st_size
    if size != wanted:
        raise DataError(
            f"{path} is no model of llama2.c's: it has {size:,} bytes, and should have {wanted:,}"
        )
    numbers = np.memmap(path, dtype="<f4", mode="r", offset=28)
    tensors: dict[str, Stored] = {}
    place = 0
    for name, shape in shapes.items():
        values = numbers[place : place + prod(shape)].reshape(shape)
        place += prod(shape)
        many = {"q_proj": heads, "k_proj": fewer}.get(name.split(".")[-2] if "." in name else "")
        tensors[name] = Stored(shape, _copied(values, many))
    del tensors["angles"]
    config = LlamaConfig(
        vocabulary, width, layers, heads, fewer, hidden, each, tied=words > 0, context=context
    )
    return Checkpoint(path, lambda: Llama(config), tensors, layers, llama_outline(path, config), context)


def _copied(values: Any, heads: int | None) -> Callable[[], Tensor]:
    def read() -> Tensor:
        whole = torch.from_numpy(np.array(values, dtype=np.float32))
        return whole if heads is None else halved(whole, heads)

    return read
