"""Small language models in the files that real ones come in, written as their formats have it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor, nn

import gguf_files
from unknot.models.gpt2 import GPT2
from unknot.models.llama import Llama, LlamaConfig

SIGNS = sorted(ByteLevel.alphabet())
"""The printable sign that files have for each byte."""
MERGES = [("o", "n"), ("Ġ", "on"), ("Ġon", "e"), ("t", "w"), ("Ġ", "tw"), ("Ġtw", "o"), ("Ġ", "c")]
WORDS = [*SIGNS, *("".join(pair) for pair in MERGES), "<|endoftext|>"]
VOCABULARY, PAD = len(WORDS), len(WORDS) - 1
ONE, TWO = WORDS.index("Ġone"), WORDS.index("Ġtwo")
LLAMA = LlamaConfig(VOCABULARY, 16, 2, 4, 2, 24, 4, tied=False, context=32)


def seeded(make: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model


def llama(**changes: Any) -> Llama:
    return seeded(lambda: Llama(LlamaConfig(**{**vars(LLAMA), **changes})))


def gpt2(**changes: Any) -> GPT2:
    sizes = {"vocabulary": VOCABULARY, "context": 12, "width": 16, "layers": 2, "heads": 2}
    return seeded(lambda: GPT2(**{**sizes, **changes}))


def settings(model: Llama | GPT2) -> dict[str, Any]:
    """`config.json` of a model."""
    if isinstance(model, GPT2):
        trunk = model.transformer
        return {
            "model_type": "gpt2",
            "vocab_size": model.vocabulary,
            "n_positions": len(trunk.wpe.weight),
            "n_embd": model.width,
            "n_layer": len(trunk.h),
            "n_head": trunk.h[0].attn.heads,
            "n_inner": None,
            "tie_word_embeddings": model.lm_head.weight is trunk.wte.weight,
        }
    sizes = model.config
    return {
        "model_type": "llama",
        "vocab_size": sizes.vocabulary,
        "hidden_size": sizes.width,
        "intermediate_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_width,
        "rope_theta": sizes.rope_base,
        "rms_norm_eps": sizes.eps,
        "tie_word_embeddings": sizes.tied,
        "max_position_embeddings": sizes.context,
    }


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Hugging Face's: GPT-2's matrices are the other way round."""
    turned = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    return {
        name: (p.T if isinstance(model, GPT2) and name.endswith(turned) else p).detach().clone().contiguous()
        for name, p in model.named_parameters()
    }


def write_folder(
    folder: Path,
    model: Llama | GPT2,
    found: dict[str, Tensor] | None = None,
    words: bool = True,
    **changes: Any,
) -> Path:
    """`changes` are of `config.json`; `words`: with a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**settings(model), **changes}))
    save_file(found or tensors(model), folder / "model.safetensors", {"format": "pt"})
    if words:
        (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(WORDS)}))
        lines = ["#version: 0.2", *(" ".join(pair) for pair in MERGES), ""]
        (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def paired(weight: Tensor, heads: int) -> Tensor:
    """Rows as llama2.c and GGUF have them: what is turned together lies side by side."""
    rows, half = [], len(weight) // heads // 2
    for head in range(heads):
        for i in range(half):
            first = 2 * half * head + i
            rows += [weight[first], weight[first + half]]
    return torch.stack(rows)


def write_llama_gguf(path: Path, model: Llama, more: Any = None, **changes: Any) -> Path:
    """`changes` are of the settings; `more` are further tensors."""
    sizes = model.config
    metadata: dict[str, Any] = {
        "general.architecture": "llama",
        "llama.block_count": sizes.layers,
        "llama.context_length": sizes.context,
        "llama.embedding_length": sizes.width,
        "llama.feed_forward_length": sizes.hidden,
        "llama.attention.head_count": sizes.heads,
        "llama.attention.head_count_kv": sizes.kv_heads,
        "llama.attention.key_length": sizes.head_width,
        "llama.attention.layer_norm_rms_epsilon": sizes.eps,
        "llama.rope.freq_base": sizes.rope_base,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": WORDS,
        "tokenizer.ggml.token_type": [1] * PAD + [3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES],
        "tokenizer.ggml.eos_token_id": PAD,
    }
    metadata |= changes
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    ends = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    found: dict[str, Any] = {}
    for name, tensor in tensors(model).items():
        if name in ends:
            found[ends[name]] = tensor.numpy()
            continue
        _, _, block, part = name.removesuffix(".weight").split(".", 3)
        heads = {"self_attn.q_proj": sizes.heads, "self_attn.k_proj": sizes.kv_heads}.get(part)
        found[f"blk.{block}.{parts[part]}.weight"] = (
            tensor if heads is None else paired(tensor, heads)
        ).numpy()
    written = {name: value for name, value in metadata.items() if value is not None}
    return gguf_files.write(path, written, {**found, **(more or {})})


def write_gpt2_gguf(path: Path, model: GPT2) -> Path:
    about = settings(model)
    metadata = {
        "general.architecture": "gpt2",
        "gpt2.block_count": about["n_layer"],
        "gpt2.context_length": about["n_positions"],
        "gpt2.embedding_length": about["n_embd"],
        "gpt2.feed_forward_length": 4 * about["n_embd"],
        "gpt2.attention.head_count": about["n_head"],
        "gpt2.attention.layer_norm_epsilon": 1e-5,
    }
    names = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm"}
    names |= {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    ends = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    found = {}
    for name, p in model.named_parameters():
        part, _, kind = name.removeprefix("transformer.").rpartition(".")
        if part in ends:
            found[f"{ends[part]}.{kind}"] = p.detach().numpy()
        else:
            _, block, inner = part.split(".", 2)
            found[f"blk.{block}.{names[inner]}.{kind}"] = p.detach().numpy()
    return gguf_files.write(path, metadata, found)


def write_llama2c(path: Path, model: Llama) -> Path:
    """All layers' parts of a kind one after the other, as `export.py` of llama2.c writes them."""
    sizes, found = model.config, tensors(model)
    vocabulary = sizes.vocabulary if sizes.tied else -sizes.vocabulary
    head = (sizes.width, sizes.hidden, sizes.layers, sizes.heads, sizes.kv_heads, vocabulary, sizes.context)
    order = ["input_layernorm", *(f"self_attn.{part}_proj" for part in "qkvo"), "post_attention_layernorm"]
    order += ["mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"]
    parts = [found["model.embed_tokens.weight"]]
    for part in order:
        heads = {"self_attn.q_proj": sizes.heads, "self_attn.k_proj": sizes.kv_heads}.get(part)
        for layer in range(sizes.layers):
            tensor = found[f"model.layers.{layer}.{part}.weight"]
            parts.append(tensor if heads is None else paired(tensor, heads))
    parts += [found["model.norm.weight"], torch.zeros(sizes.context * sizes.head_width)]
    parts += [] if sizes.tied else [found["lm_head.weight"]]
    numbers = np.concatenate([part.numpy().ravel() for part in parts]).astype("<f4")
    path.write_bytes(struct.pack("<7i", *head) + numbers.tobytes())
    return path


LANGUAGES = ("nl", "en", "fr", "de", "it", "pt", "ru", "es")


def write_language_world(folder: Path) -> Path:
    """What the page of language models speaks of, very small: files of models, and some rows of `langid`."""
    begin = [("Ġ", letter) for letter in "DEFGIPRS"]
    words = [*SIGNS, *("".join(pair) for pair in begin), "<|endoftext|>"]
    tokens = {
        "tokens": words,
        "token_type": [1] * (len(words) - 1) + [3],
        "merges": [" ".join(pair) for pair in begin],
        "eos_token_id": len(words) - 1,
    }
    model = llama(vocabulary=len(words), layers=1, context=64)
    changes = {f"tokenizer.ggml.{name}": it for name, it in tokens.items()}
    write_llama_gguf(folder / "SmolLM2-135M-Instruct.Q4_1.gguf", model, **changes)
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    raw = b"".join(struct.pack("<fi", 0.0, len(piece)) + piece.encode() for piece in pieces)
    (folder / f"tok{len(pieces)}.bin").write_bytes(struct.pack("<i", 7) + raw)
    write_llama2c(folder / "stories260K.bin", llama(vocabulary=len(pieces), layers=1, context=64))
    (folder / "langid").mkdir()
    for part, many in (("valid", 8), ("test", 2)):
        rows = [f"{code},{code} {place}" for place in range(many) for code in LANGUAGES]
        (folder / "langid" / f"{part}.csv").write_text("\n".join(["labels,text", *rows, ""]))
    return folder
