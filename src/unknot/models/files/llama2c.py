"""Models of llama2.c's (stories260K), in its first format."""

from __future__ import annotations

import struct
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored, halved
from unknot.models.llama import Llama, LlamaConfig


def read(path: Path, head: bytes) -> Checkpoint:
    """Sizes, then all numbers in single precision; those of a kind are stored for all layers at once."""
    width, hidden, layers, heads, fewer, words, context = struct.unpack("<7i", head)
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
    table, angles = (vocabulary, width), (2, context, each // 2)
    wanted = prod(table) * (1 + (words < 0)) + layers * sum(map(prod, blocks.values())) + width + prod(angles)
    if path.stat().st_size != 28 + 4 * wanted:
        raise DataError(f"{path} is no model of llama2.c's first format, which would have {wanted:,} numbers")
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": table}
    for part, shape in blocks.items():
        shapes |= {f"model.layers.{i}.{part}.weight": shape for i in range(layers)}
    shapes |= {"model.norm.weight": (width,), "angles.": angles}
    if words < 0:
        shapes["lm_head.weight"] = table
    numbers = np.memmap(path, dtype="<f4", mode="r", offset=28)
    tensors: dict[str, Stored] = {}
    place = 0
    for name, shape in shapes.items():
        values = numbers[place : place + prod(shape)].reshape(shape)
        place += prod(shape)
        many = {"q_proj": heads, "k_proj": fewer}.get(name.split(".")[-2])
        tensors[name] = Stored(shape, partial(_copied, values, many))
    del tensors["angles."]
    config = LlamaConfig(
        vocabulary, width, layers, heads, fewer, hidden, each, tied=words > 0, context=context
    )
    return Checkpoint(path, lambda: Llama(config), tensors, context)


def _copied(values: NDArray[np.float32], heads: int | None) -> Tensor:
    whole = torch.from_numpy(np.array(values, dtype=np.float32))
    return whole if heads is None else halved(whole, heads)
