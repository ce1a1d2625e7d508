"""Llamas and GPT-2 in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored, halved
from unknot.models.gpt2 import GPT2
from unknot.models.llama import Llama, LlamaConfig
from unknot.models.transformer import rotations
from unknot.text.gguf import Gguf

_BLOCK = re.compile(r"blk\.(\d+)\.(.+)\.(weight|bias)")
_LLAMA_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LLAMA_ENDS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_GPT2_PARTS = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_GPT2_ENDS = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    "output.weight": "lm_head.weight",
}
ROPE = "rope_freqs.weight"
LLAMA3 = (1.0, 4.0, 8192)
"""What Llama 3 was trained with: a GGUF file has only what comes of it."""


def read(file: Gguf) -> Checkpoint:
    kind = file.metadata.get("general.architecture")
    if kind == "llama":
        return _llama(file)
    if kind == "gpt2":
        return _gpt2(file)
    raise DataError(
        f"{file.path} holds a model of the kind {kind!r}; of GGUF files 'llama' and 'gpt2' are read"
    )


def _llama(file: Gguf) -> Checkpoint:
    said = _said(file, "llama")
    width, heads = said["embedding_length"], said["attention.head_count"]
    fewer = said.get("attention.head_count_kv", heads)
    head_width = said.get("attention.key_length", width // heads)
    scaling = str(said.get("rope.scaling.type", "none"))
    if scaling != "none" or said.get("rope.dimension_count", head_width) != head_width:
        raise DataError(f"{file.path}: it turns positions in a way that is not known here ({scaling})")
    base = float(said.get("rope.freq_base", 10000.0))
    config = LlamaConfig(
        vocabulary=file.shape("token_embd.weight")[0],
        width=width,
        layers=said["block_count"],
        heads=heads,
        kv_heads=fewer,
        hidden=said["feed_forward_length"],
        head_width=head_width,
        rope_base=base,
        rope_scaling=_scaling(file, head_width, base),
        eps=float(said["attention.layer_norm_rms_epsilon"]),
        tied="output.weight" not in file.tensors,
        context=said["context_length"],
    )
    tensors: dict[str, Stored] = {}
    for name in file.tensors:
        if name == ROPE:
            continue
        ours = _renamed(name, "model.layers", _LLAMA_PARTS, _LLAMA_ENDS)
        many = {"q_proj": heads, "k_proj": fewer}.get(ours.split(".")[-2])
        tensors[ours] = _stored(file, name, many)
    return Checkpoint(file.path, lambda: Llama(config), tensors, config.context)


def _gpt2(file: Gguf) -> Checkpoint:
    said = _said(file, "gpt2")
    make = partial(
        GPT2,
        vocabulary=file.shape("token_embd.weight")[0],
        context=said["context_length"],
        width=said["embedding_length"],
        layers=said["block_count"],
        heads=said["attention.head_count"],
        hidden=said["feed_forward_length"],
        eps=float(said["attention.layer_norm_epsilon"]),
        tied="output.weight" not in file.tensors,
    )
    tensors = {
        _renamed(name, "transformer.h", _GPT2_PARTS, _GPT2_ENDS): _stored(file, name) for name in file.tensors
    }
    return Checkpoint(file.path, make, tensors, said["context_length"])


def _said(file: Gguf, kind: str) -> dict[str, Any]:
    """What the file says of such a model, by name."""
    return {name.removeprefix(f"{kind}."): value for name, value in file.metadata.items()}


def _renamed(name: str, blocks: str, parts: Mapping[str, str], ends: Mapping[str, str]) -> str:
    """A tensor of a GGUF file by our name; what has none keeps its own, and is refused later."""
    found = _BLOCK.fullmatch(name)
    if found and found[2] in parts:
        return f"{blocks}.{found[1]}.{parts[found[2]]}.{found[3]}"
    return ends.get(name, name)


def _stored(file: Gguf, name: str, heads: int | None = None) -> Stored:
    return Stored(
        file.shape(name), lambda: file.tensor(name) if heads is None else halved(file.tensor(name), heads)
    )


def _scaling(file: Gguf, width: int, base: float) -> tuple[float, float, float, int] | None:
    """Llama 3's scaling of positions, found out from the factors by which a file says that rates fall."""
    if ROPE not in file.tensors:
        return None
    factors = file.tensor(ROPE).double()
    found = (float(factors.max()), *LLAMA3)
    # The second position's angles are the rates themselves.
    plain, scaled = (rotations(2, width, base, s, "cpu")[1][1].double().asin() for s in (None, found))
    if torch.allclose(plain / scaled, factors, rtol=1e-3):
        return found
    raise DataError(f"{file.path}: it turns positions in a way that is not known here ({ROPE})")
