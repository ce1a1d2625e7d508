"""Tokenizers of other makes, by the package `transformers` where it is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, DataError, install
from unknot.text.alphabet import Tokenizer


class Borrowed(Tokenizer):
    """A tokenizer of `transformers`, read from a folder; nothing is downloaded."""

    def __init__(self, folder: Path, why: str) -> None:
        """`why`: what keeps us from reading it ourselves."""
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise ConfigError(
                f"{folder}: {why}; to read it by the package transformers: {install('text')}"
            ) from None
        try:
            theirs: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{folder}: {why}, and transformers cannot read it either: {error}") from error
        self.name, self.size = folder.name, len(theirs)
        pad = theirs.pad_token_id if theirs.pad_token_id is not None else theirs.eos_token_id
        if pad is None:
            raise DataError(f"{folder}: there is no token that fills up, and none that ends a text")
        self.pad = int(pad)
        self._theirs = theirs
        if (fast := getattr(theirs, "backend_tokenizer", None)) is not None:
            _forgetful(fast.model, folder)
        self._hidden = {*theirs.all_special_ids, self.pad} - {theirs.unk_token_id}

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        try:
            return [self._encoded(text) for text in texts]
        finally:
            if isinstance(cache := getattr(self._theirs, "cache", None), dict):  # of those written in Python
                cache.clear()

    def _encoded(self, text: str) -> list[int]:
        found = self._theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
        return [token for token in found if token not in self._hidden]

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        return str(self._theirs.decode(list(tokens), skip_special_tokens=True))


def _forgetful(model: Any, folder: Path) -> None:
    """Turn off a model's memory of words that it has read: a tokenizer keeps nothing of anybody's."""
    if hasattr(model, "_resize_cache"):
        model._resize_cache(0)
    elif type(model).__name__ in ("BPE", "Unigram"):
        raise ConfigError(
            f"{folder}: the package tokenizers that is installed remembers the words that it has read; take "
            "a newer one, in which that can be turned off: pip install -U tokenizers"
        )
