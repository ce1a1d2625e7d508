"""Llamas and GPT-2 in folders of Hugging Face's: `config.json`, and tensors in one file or several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored
from unknot.models.gpt2 import GPT2
from unknot.models.llama import Llama, LlamaConfig


def read(path: Path) -> Checkpoint | str:
    """What a folder holds; of one that is for others to read, why we do not."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    kind = config["model_type"]
    if kind == "llama":
        return _llama(path, config)
    if kind == "gpt2":
        return _gpt2(path, config)
    return f"its model is of the kind {kind!r}, and 'llama' and 'gpt2' are read by unknot itself"


def _llama(path: Path, config: Mapping[str, Any]) -> Checkpoint | str:
    odd = _odd(config, hidden_act="silu", attention_bias=False, mlp_bias=False, pretraining_tp=1)
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    way = rope.get("rope_type", rope.get("type", "default"))
    if odd or way not in ("default", "llama3"):
        return f"it has {odd or f'rope_type = {way!r}'}, which unknot's own Llama does not have"
    heads, width = config["num_attention_heads"], config["hidden_size"]
    sizes = LlamaConfig(
        vocabulary=config["vocab_size"],
        width=width,
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        hidden=config["intermediate_size"],
        head_width=config.get("head_dim") or width // heads,
        rope_base=float({**config, **rope}.get("rope_theta") or 10000.0),
        rope_scaling=_scaling(rope) if way == "llama3" else None,
        eps=float(config.get("rms_norm_eps") or 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
        context=config.get("max_position_embeddings") or 2048,
    )
    tensors = {name: it for name, it in _tensors(path) if not name.endswith("rotary_emb.inv_freq")}
    return Checkpoint(path, lambda: Llama(sizes), _without_copy(tensors, sizes.tied), sizes.context)


def _gpt2(path: Path, config: Mapping[str, Any]) -> Checkpoint | str:
    act = config.get("activation_function", "gelu_new")
    odd = _odd(
        config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False
    )
    if odd or act not in ("gelu_new", "gelu_pytorch_tanh"):
        return f"it has {odd or f'activation_function = {act!r}'}, which unknot's own GPT-2 does not have"
    tied = bool(config.get("tie_word_embeddings", True))
    make = partial(
        GPT2,
        vocabulary=config["vocab_size"],
        context=config["n_positions"],
        width=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        hidden=config.get("n_inner"),
        eps=float(config.get("layer_norm_epsilon") or 1e-5),
        tied=tied,
    )
    tensors: dict[str, Stored] = {}
    for name, it in _tensors(path):
        if name.endswith((".attn.bias", ".attn.masked_bias")):  # masks, in old files
            continue
        ours = name if name.startswith(("transformer.", "lm_head.", "score.")) else f"transformer.{name}"
        tensors[ours] = _turned(it) if re.search(r"\.c_\w+\.weight$", ours) else it
    return Checkpoint(path, make, _without_copy(tensors, tied), config["n_positions"])


def _scaling(rope: Mapping[str, Any]) -> tuple[float, float, float, int]:
    """Llama 3's scaling of positions."""
    factor, low, high = (float(rope[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    return factor, low, high, rope["original_max_position_embeddings"]


def _turned(stored: Stored) -> Stored:
    """A matrix that is stored the other way round."""
    return Stored(stored.shape[::-1], lambda: stored.read().t().contiguous())


def _without_copy(tensors: dict[str, Stored], tied: bool) -> dict[str, Stored]:
    """Where the head is the table of tokens, some files hold it twice."""
    return {name: it for name, it in tensors.items() if not (tied and name == "lm_head.weight")}


def _odd(config: Mapping[str, Any], **usual: object) -> str:
    """The first setting that is another than the one that our definitions have."""
    return next(
        (f"{name} = {config[name]!r}" for name, value in usual.items() if config.get(name, value) != value),
        "",
    )


def _tensors(path: Path) -> Iterator[tuple[str, Stored]]:
    """The tensors in a folder: in one file, or in several with an index."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = path / f"{name}.index.json"
        if index.exists():
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            for file in sorted({Path(part).name for part in parts.values()}):  # of this folder alone
                yield from _in_file(path / file)
            return
        if (path / name).exists():
            yield from _in_file(path / name)
            return
    raise DataError(f"{path} holds no weights: expected model.safetensors or pytorch_model.bin, or an index")


def _in_file(path: Path) -> Iterator[tuple[str, Stored]]:
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        file: Any = safe_open(path, "pt")
        for name in file.keys():  # noqa: SIM118
            yield name, Stored(tuple(file.get_slice(name).get_shape()), partial(file.get_tensor, name))
    else:
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        for name, tensor in held.items():
            yield name, Stored(tuple(tensor.shape), partial(torch.as_tensor, tensor))
