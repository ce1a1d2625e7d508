"""Small files in the formats of real tokenizers."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

import gguf_files

HOW = ("single_word", "lstrip", "rstrip", "normalized")
SIGNS = sorted(ByteLevel.alphabet())
"""The printable sign that files have for each byte."""
END = "<|endoftext|>"
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("1", "2"), ("Ġ", "Ġ")]


def vocabulary(merges: Sequence[tuple[str, str]] = MERGES, special: Sequence[str] = (END,)) -> dict[str, int]:
    """A token a byte, then one a merge, then the special ones."""
    words = [*SIGNS, *(left + right for left, right in merges), *special]
    return {word: number for number, word in enumerate(words)}


def write_gpt2(folder: Path, names: tuple[str, str] = ("encoder.json", "vocab.bpe")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(json.dumps(vocabulary()))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in MERGES), ""]
    (folder / names[1]).write_text("\n".join(lines), encoding="utf-8")
    return folder


def write_json(folder: Path, pre_tokenizer: Any, **changes: Any) -> Path:
    """Hugging Face's `tokenizer.json`; `changes` go into its model."""
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary(special=())
    content = {
        "version": "1.0",
        "added_tokens": [{"id": len(words), "content": END, "special": True, **dict.fromkeys(HOW, False)}],
        "pre_tokenizer": pre_tokenizer,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": words, "merges": [" ".join(pair) for pair in MERGES], **changes},
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def write_gguf(path: Path, pre: str = "smollm", **changes: Any) -> Path:
    words = list(vocabulary())
    settings = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * (len(words) - 1) + [3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES],
        "tokenizer.ggml.eos_token_id": len(words) - 1,
    }
    settings |= {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return gguf_files.write(path, {name: value for name, value in settings.items() if value is not None}, {})


def write_llama2c(path: Path, pieces: Sequence[tuple[str, float]]) -> Path:
    """Special tokens, bytes, then these pieces."""
    fixed = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    raw = struct.pack("<i", 7)
    for piece, score in [*((piece, 0.0) for piece in fixed), *pieces]:
        raw += struct.pack("<fi", score, len(piece.encode())) + piece.encode()
    path.write_bytes(raw)
    return path
