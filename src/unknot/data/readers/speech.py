"""Tiny Shakespeare as next-token samples (tokens are characters or others), each from one speaker's lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import read_bytes, reading
from unknot.data.text import Named, check_context, tokenizer_of

Files = Mapping[str, Path]

# Fixed, not gathered from the text: it must not depend on any speaker's lines.
VOCABULARY = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def speeches(text: str) -> dict[str, str]:
    """What each speaker says, in order; speakers in the order of their first words.

    Blocks are parted by blank lines; the first line of a block is the speaker's name and a colon.
    A block without a name goes on with the speaker before it.
    """
    said: dict[str, list[str]] = {}
    speaker = ""
    for block in re.split(r"\n{2,}", text.strip("\n")):
        first, _, rest = block.partition("\n")
        named = first.endswith(":") and len(first) > 1
        if named:
            speaker = first[:-1]
        words = rest if named else block
        if speaker and words:
            said.setdefault(speaker, []).append(words)
    return {name: "\n\n".join(blocks) for name, blocks in said.items()}


def _windows(tokens: NDArray[np.int64], context: int) -> tuple[Ints, Ints]:
    """Windows of `context` tokens side by side, and the same moved on by one: the targets."""
    count = max(0, (len(tokens) - 1) // context)
    size = count * context
    return tokens[:size].reshape(count, context), tokens[1 : size + 1].reshape(count, context)


def shakespeare(
    files: Files, *, context: int = 80, test_share: float = 0.1, tokenizer: Named = "characters"
) -> Dataset:
    """The last of a speaker's windows are the test part: it follows the training part.

    A speaker with two windows or more has one at least in the test part; a speaker with less than
    a window is left out.

    `context`: tokens a window. `test_share`: the share of a speaker's windows that is the test part.
    `tokenizer`: "characters", the 65 that there are; "bytes"; or a file or folder of one; with a pretrained
    model, left out: the model's own.
    """
    check_context("shakespeare", context)
    if not 0 < test_share < 1:
        raise ConfigError(f"shakespeare: test_share must lie between 0 and 1, not {test_share}")
    path = files["shakespeare/tinyshakespeare.txt"]
    with reading(path):
        said = speeches(read_bytes(path).decode("utf-8").replace("\r\n", "\n"))
    made = None if tokenizer == "characters" else tokenizer_of(tokenizer, path.parents[1])
    with reading(path):
        number = {character: token for token, character in enumerate(VOCABULARY)}
        codes = (
            [[number[character] for character in words] for words in said.values()]
            if made is None
            else made.encode_all(said.values())
        )
    spoken = [np.asarray(tokens, dtype=np.int64) for tokens in codes]
    names: list[str] = []
    parts: dict[str, list[tuple[Ints, Ints]]] = {"train": [], "test": []}
    owners: dict[str, list[Ints]] = {"train": [], "test": []}
    for name, tokens in zip(said, spoken, strict=True):
        x, y = _windows(tokens, context)
        if not len(x):
            continue
        held = min(len(x) - 1, max(1, int(len(x) * test_share + 0.5)))
        cut = len(x) - held
        for part, rows in (("train", slice(0, cut)), ("test", slice(cut, None))):
            parts[part].append((x[rows], y[rows]))
            owners[part].append(np.full(len(x[rows]), len(names), dtype=np.int64))
        names.append(name)
    if not names:
        raise ConfigError(
            f"shakespeare: nobody says context + 1 = {context + 1} tokens in {path}. Lower context"
        )
    train, test = (
        Samples(
            torch.from_numpy(np.concatenate([x for x, _ in parts[part]])),
            torch.from_numpy(np.concatenate([y for _, y in parts[part]])),
            len(VOCABULARY) if made is None else made.size,
        )
        for part in ("train", "test")
    )
    return Dataset(
        "shakespeare",
        train,
        test,
        np.concatenate(owners["train"]),
        np.concatenate(owners["test"]),
        tuple(names),
        VOCABULARY if made is None else None,
        tokenizer=made,
    )
