"""Texts by characters: each one predicts the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unknot.core.errors import DataError
from unknot.core.samples import IGNORED

CHARACTERS = "\t\n" + "".join(map(chr, range(32, 127)))
"""The usual vocabulary: fixed, since one that is gathered from texts depends on who is there to be read."""


def check_vocabulary(vocabulary: object, context: object) -> None:
    if not isinstance(vocabulary, str) or not vocabulary or len(set(vocabulary)) < len(vocabulary):
        raise DataError(f"a vocabulary is a text of characters, each of them once, not {vocabulary!r}")
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise DataError(f"context must be a whole number of at least 1, not {context!r}")


def windows(
    texts: Sequence[str], vocabulary: str, context: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Windows of `context` characters side by side, and as targets the same moved on by one.

    A character that is not in the vocabulary is token ``len(vocabulary)``. The last window of a text is
    filled up with that token; there is nothing to predict at what fills it up (the target is `IGNORED`).
    """
    token = {character: i for i, character in enumerate(vocabulary)}
    inputs, targets = [np.empty((0, context), dtype=np.int64)], [np.empty((0, context), dtype=np.int64)]
    for text in texts:
        codes = np.asarray([token.get(c, len(vocabulary)) for c in text], dtype=np.int64)
        many = -(-max(0, len(codes) - 1) // context)
        x = np.full(many * context, len(vocabulary), dtype=np.int64)
        y = np.full(many * context, IGNORED, dtype=np.int64)
        if many:
            x[: len(codes) - 1], y[: len(codes) - 1] = codes[:-1], codes[1:]
        inputs.append(x.reshape(many, context))
        targets.append(y.reshape(many, context))
    return np.concatenate(inputs), np.concatenate(targets)
