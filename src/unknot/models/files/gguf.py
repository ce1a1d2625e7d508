"""Llamas and GPT-2 in GGUF files."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored, halved
from unknot.models.files.sizes import Settings, gpt2_outline, llama_outline
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
    said = Settings(file.path, file.metadata, "llama.")
    width, heads = said.whole("embedding_length"), said.whole("attention.head_count")
    fewer = said.whole("attention.head_count_kv", heads)
    head_width = said.whole("attention.key_length", width // heads)
    scaling = str(file.metadata.get("llama.rope.scaling.type", "none"))
    if scaling != "none" or said.whole("rope.dimension_count", head_width) != head_width:
        raise DataError(f"{file.path}: it turns positions in a way that is not known here ({scaling})")
    base = said.above("rope.freq_base", 10000.0)
    config = LlamaConfig(
        vocabulary=_rows(file, "token_embd.weight"),
        width=width,
        layers=said.whole("block_count"),
        heads=heads,
        kv_heads=fewer,
        hidden=said.whole("feed_forward_length"),
        head_width=head_width,
        rope_base=base,
        rope_scaling=_scaling(file, head_width, base),
        eps=said.above("attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.tensors,
        context=said.whole("context_length"),
    )
    outline = llama_outline(file.path, config)
    tensors: dict[str, Stored] = {}
    for name in file.tensors:
        if name == ROPE:
            continue
        ours = _renamed(name, "model.layers", _LLAMA_PARTS, _LLAMA_ENDS)
        many = {"q_proj": heads, "k_proj": fewer}.get(ours.split(".")[-2])
        tensors[ours] = _stored(file, name, many)
    return Checkpoint(file.path, lambda: Llama(config), tensors, config.layers, outline, config.context)


def _gpt2(file: Gguf) -> Checkpoint:
    said = Settings(file.path, file.metadata, "gpt2.")
    sizes = {
        "vocabulary": _rows(file, "token_embd.weight"),
        "context": said.whole("context_length"),
        "width": said.whole("embedding_length"),
        "heads": said.whole("attention.head_count"),
        "hidden": said.whole("feed_forward_length"),
    }
    layers, eps = said.whole("block_count"), said.above("attention.layer_norm_epsilon")
    tied = "output.weight" not in file.tensors
    tensors = {
        _renamed(name, "transformer.h", _GPT2_PARTS, _GPT2_ENDS): _stored(file, name) for name in file.tensors
    }
    return Checkpoint(
        file.path,
        lambda: GPT2(**sizes, layers=layers, eps=eps, tied=tied),
        tensors,
        layers,
        gpt2_outline(file.path, **sizes),
        sizes["context"],
    )


def _rows(file: Gguf, name: str) -> int:
    return file.shape(name)[0] if file.shape(name) else 0


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
    if file.shape(ROPE) == (width // 2,) and width > 1:
        factors = file.tensor(ROPE).double()
        found = (float(factors.max()), *LLAMA3)
        # The second position's angles are the rates themselves.
        plain, scaled = (rotations(2, width, base, s, "cpu")[1][1].double().asin() for s in (None, found))
        if found[0] > 0 and torch.allclose(plain / scaled, factors, rtol=1e-3):
            return found
    raise DataError(f"{file.path}: it turns positions in a way that is not known here ({ROPE})")
