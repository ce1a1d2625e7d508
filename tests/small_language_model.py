"""A Llama of one layer in a GGUF file, with a tokenizer of its own; texts in the layout of the real sets."""

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

import gguf_files
from unknot.data.readers.languages import ALIKE, LANGUAGES, SENTIMENTS

END = "<|endoftext|>"
FIRST = [("Ġ", letter) for letter in "DEFGSIPRnp"]
MERGES = [*FIRST, ("Ġn", "e"), ("Ġne", "g"), ("Ġne", "u")]
"""So that " Dutch", " English"... begin with tokens of their own."""
WIDTH, HIDDEN, HEADS = 16, 24, 2


def write_model(path: Path) -> Path:
    words = [*sorted(ByteLevel.alphabet()), *(left + right for left, right in MERGES), END]
    settings = {
        "general.architecture": "llama",
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.attention.head_count": HEADS,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.context_length": 64,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * (len(words) - 1) + [3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES],
        "tokenizer.ggml.eos_token_id": len(words) - 1,
    }
    shapes = {
        "token_embd.weight": (len(words), WIDTH),
        "output_norm.weight": (WIDTH,),
        "blk.0.attn_norm.weight": (WIDTH,),
        "blk.0.ffn_norm.weight": (WIDTH,),
        **{f"blk.0.attn_{part}.weight": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{part}.weight": (HIDDEN, WIDTH) for part in ("gate", "up")},
        "blk.0.ffn_down.weight": (WIDTH, HIDDEN),
    }
    rng = np.random.default_rng(0)
    drawn = {name: 0.3 * rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    return gguf_files.write(path, settings, drawn)


def write_langid(root: Path, each: int) -> None:
    """`each` texts a language and part; the code of the language is in the text."""
    for part in ("valid", "test"):
        rows = ((code, f"{code} {i} {code}") for code in LANGUAGES for i in range(each))
        _write(root / "langid" / f"{part}.csv", ("labels", "text"), rows)


def write_sentiments(root: Path, each: int) -> None:
    for language in ALIKE:
        for part in ("train", "test"):
            rows = ((f"{SENTIMENTS[i % 3]} {i}", SENTIMENTS[i % 3]) for i in range(each))
            _write(root / "sentiment" / "data" / language.lower() / f"{part}.csv", ("text", "label"), rows)


def write_shakespeare(root: Path, lines: int) -> None:
    """Two speakers in turn, each with so many lines."""
    said = (f"{'AB'[i % 2]}:\nTo be or not to be, that is question {i}.\n" for i in range(2 * lines))
    (root / "shakespeare").mkdir(parents=True)
    (root / "shakespeare" / "tinyshakespeare.txt").write_text("\n".join(said))


def _write(path: Path, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([head, *rows])
