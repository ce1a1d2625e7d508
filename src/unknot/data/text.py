"""Texts as samples: windows in which each token predicts the next, or a prompt with a text and a label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import ConfigError
from unknot.core.places import located
from unknot.core.samples import IGNORED
from unknot.text.tokenizer import NAMES, Tokenizer, tokenizer

Tokens = NDArray[np.int64]
Named = Literal["bytes", "characters"] | Path
"""A tokenizer in a file: one that needs no file, by name, or where one lies."""
SLOT = "{text}"
"""Where the text stands in a prompt."""


def windows(texts: Iterable[Sequence[int]], context: int, pad: int) -> tuple[Tokens, Tokens, Tokens]:
    """Windows of `context` tokens side by side; as targets the same moved on by one; of which text each is.

    The last window of a text is filled up with `pad`; there is nothing to predict at what fills it up (the
    target is `IGNORED`).
    """
    empty = np.empty((0, context), dtype=np.int64)
    inputs, targets, counts = [empty], [empty], []
    for tokens in texts:
        codes = np.asarray(tokens, dtype=np.int64)
        many = -(-max(0, len(codes) - 1) // context)
        x = np.full(many * context, pad, dtype=np.int64)
        y = np.full(many * context, IGNORED, dtype=np.int64)
        if many:
            x[: len(codes) - 1], y[: len(codes) - 1] = codes[:-1], codes[1:]
        inputs.append(x.reshape(many, context))
        targets.append(y.reshape(many, context))
        counts.append(many)
    return np.concatenate(inputs), np.concatenate(targets), np.repeat(np.arange(len(counts)), counts)


@dataclass(frozen=True)
class Prompt:
    """What a model is given of a text that has a label: so many tokens, filled up on the right.

    A text that is too long is cut at its end; what stands before and after it in the `prompt` is not. The
    three are encoded each by itself, so that where one ends does not depend on what the other says.
    """

    tokenizer: Tokenizer
    context: int
    prompt: str = SLOT

    def __post_init__(self) -> None:
        if re.findall(r"\{\w*\}", self.prompt) != [SLOT]:
            raise ConfigError(
                f"prompt must have {SLOT} in it, once, and no other field; found {self.prompt!r}"
            )
        if self.room < 1:
            raise ConfigError(
                f"context = {self.context} leaves no room for a text: the prompt {self.prompt!r} takes "
                f"{self.context - self.room} tokens by itself. Raise context, or shorten the prompt"
            )

    @property
    def _ends(self) -> tuple[list[int], list[int]]:
        before, _, after = self.prompt.partition(SLOT)
        head = self.tokenizer.encode(before) if before else []
        return head, self.tokenizer.encode_all([after], goes_on=True)[0]

    @property
    def room(self) -> int:
        """How many tokens of a text there is room for."""
        head, tail = self._ends
        return self.context - len(head) - len(tail)

    def inputs(self, texts: Iterable[str]) -> Tokens:
        """A row a text."""
        head, tail = self._ends
        room = self.room
        found = self.tokenizer.encode_all(texts, goes_on=bool(head))
        rows = np.full((len(found), self.context), self.tokenizer.pad, dtype=np.int64)
        for row, tokens in zip(rows, found, strict=True):
            whole = [*head, *tokens[:room], *tail]
            row[: len(whole)] = whole
        return rows


def tokenizer_of(source: str | Path | Tokenizer, near: Path | None = None) -> Tokenizer:
    """A tokenizer as the user names it; a path goes from the working directory, `near`, or $UNKNOT_DATA."""
    if isinstance(source, Tokenizer):
        return source
    if source in NAMES:
        return tokenizer(source)
    return tokenizer(located(source, *([near] if near else [])))


def check_context(name: str, context: object) -> None:
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise ConfigError(f"{name}: context must be a whole number of at least 1, not {context!r}")
