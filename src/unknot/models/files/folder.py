"""Llamas and GPT-2 in folders of Hugging Face's: `config.json`, and tensors in one file or several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unknot.core.errors import DataError
from unknot.models.files.checkpoint import Checkpoint, Stored
from unknot.models.files.sizes import Settings, gpt2_outline, llama_outline
from unknot.models.gpt2 import GPT2
from unknot.models.llama import Llama, LlamaConfig

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def read(path: Path) -> Checkpoint | str:
    """What a folder holds; of one that is for others to read, why we do not."""
    if not (path / "config.json").exists():
        raise DataError(
            f"{path} holds no language model: expected config.json, as Hugging Face's folders have it, and "
            "weights beside it; for a GGUF file, name the file itself"
        )
    config = _json(path / "config.json")
    kind = config.get("model_type")
    if kind == "llama":
        return _llama(path, config)
    if kind == "gpt2":
        return _gpt2(path, config)
    return f"its model is of the kind {kind!r}, and 'llama' and 'gpt2' are read by unknot itself"


def _llama(path: Path, config: Mapping[str, Any]) -> Checkpoint | str:
    odd = _odd(config, hidden_act="silu", attention_bias=False, mlp_bias=False, pretraining_tp=1)
    said = Settings(path / "config.json", config)
    rope = {**said.named("rope_scaling"), **said.named("rope_parameters")}
    way = rope.get("rope_type", rope.get("type", "default"))
    if odd or way not in ("default", "llama3"):
        return f"it has {odd or f'rope_type = {way!r}'}, which unknot's own Llama does not have"
    heads, width = said.whole("num_attention_heads"), said.whole("hidden_size")
    sizes = LlamaConfig(
        vocabulary=said.whole("vocab_size"),
        width=width,
        layers=said.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=said.whole("num_key_value_heads", heads),
        hidden=said.whole("intermediate_size"),
        head_width=said.whole("head_dim", width // heads),
        rope_base=Settings(said.path, {**config, **rope}).above("rope_theta", 10000.0),
        rope_scaling=_scaling(Settings(said.path, rope)) if way == "llama3" else None,
        eps=said.above("rms_norm_eps", 1e-6),
        tied=bool(config.get("tie_word_embeddings", False)),
        context=said.whole("max_position_embeddings", 2048),
    )
    outline = llama_outline(path, sizes)
    tensors = {name: it for name, it in _tensors(path) if not name.endswith("rotary_emb.inv_freq")}
    return Checkpoint(
        path, lambda: Llama(sizes), _without_copy(tensors, sizes.tied), sizes.layers, outline, sizes.context
    )


def _scaling(said: Settings) -> tuple[float, float, float, int]:
    """Llama 3's scaling of positions."""
    low, high = said.above("low_freq_factor"), said.above("high_freq_factor")
    if low >= high:
        raise DataError(
            f"{said.path}: low_freq_factor should be below high_freq_factor, not {low} and {high}"
        )
    return said.above("factor"), low, high, said.whole("original_max_position_embeddings")


def _gpt2(path: Path, config: Mapping[str, Any]) -> Checkpoint | str:
    act = config.get("activation_function", "gelu_new")
    odd = _odd(
        config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False
    )
    if odd or act not in ("gelu_new", "gelu_pytorch_tanh"):
        return f"it has {odd or f'activation_function = {act!r}'}, which unknot's own GPT-2 does not have"
    said = Settings(path / "config.json", config)
    width = said.whole("n_embd")
    sizes = {
        "vocabulary": said.whole("vocab_size"),
        "context": said.whole("n_positions"),
        "width": width,
        "heads": said.whole("n_head"),
        "hidden": said.whole("n_inner", 4 * width),
    }
    layers, eps = said.whole("n_layer"), said.above("layer_norm_epsilon", 1e-5)
    tied = bool(config.get("tie_word_embeddings", True))
    outline = gpt2_outline(path, **sizes)
    tensors: dict[str, Stored] = {}
    for name, it in _tensors(path):
        if name.endswith((".attn.bias", ".attn.masked_bias")):  # masks, in old files
            continue
        ours = name if name.startswith(("transformer.", "lm_head.", "score.")) else f"transformer.{name}"
        tensors[ours] = _turned(it) if re.search(r"\.c_\w+\.weight$", ours) else it
    return Checkpoint(
        path,
        lambda: GPT2(**sizes, layers=layers, eps=eps, tied=tied),
        _without_copy(tensors, tied),
        layers,
        outline,
        sizes["context"],
    )


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


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} should hold settings by name, not {type(found).__name__}")
    return found


def _tensors(path: Path) -> Iterator[tuple[str, Stored]]:
    """The tensors in a folder: in one file, or in several with an index."""
    for name in _WEIGHTS:
        index = path / f"{name}.index.json"
        if index.exists():
            parts = _json(index).get("weight_map")
            if not isinstance(parts, dict):
                raise DataError(f"{index} does not say where which tensor is")
            files = sorted({_part(index, part) for part in parts.values()})
        elif (path / name).exists():
            files = [path / name]
        else:
            continue
        for file in files:
            yield from _safe(file) if file.suffix == ".safetensors" else _pickled(file)
        return
    raise DataError(
        f"{path} holds no weights: there should be {' or '.join(_WEIGHTS)}, or several with an index"
    )


def _part(index: Path, name: object) -> Path:
    """A file of a folder whose index names it, and none from elsewhere."""
    if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
        raise DataError(f"{index}: {name!r} should be the name of a file in this folder")
    return index.parent / name


def _safe(path: Path) -> Iterator[tuple[str, Stored]]:
    from safetensors import SafetensorError, safe_open

    def stored(name: str) -> Stored:
        return Stored(tuple(file.get_slice(name).get_shape()), lambda: file.get_tensor(name))

    try:
        file: Any = safe_open(path, "pt")
        names = list(file.keys())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except SafetensorError as error:
        raise DataError(f"{path} holds no tensors that can be read: {error}") from None
    for name in names:
        yield name, stored(name)


def _pickled(path: Path) -> Iterator[tuple[str, Stored]]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # of many kinds, by what is wrong with the file
        raise DataError(f"{path} holds no tensors that can be read: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} should hold tensors by name, not {type(found).__name__}")
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise DataError(f"{path} should hold tensors by name, not {type(tensor).__name__} by {name!r}")
        yield name, Stored(tuple(tensor.shape), lambda tensor=tensor: tensor)  # type: ignore[misc]
