"""What a tokenizer is; and the two that need no file: characters, and bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from unknot.core.errors import DataError
from unknot.core.wording import Wording

CHARACTERS = "\t\n" + "".join(map(chr, range(32, 127)))
"""The usual vocabulary: fixed, since one that is gathered from texts depends on who is there to be read."""

BEFORE = ":"
"""What stands before an answer, in most prompts."""
SENTENCE = "The 12 Größen in a café, she said.\n"
"""What two tokenizers are told apart by."""


class Tokenizer(ABC):
    """Texts to tokens and back. Nothing that a text says becomes a token with a meaning of its own.

    It keeps nothing of the texts that it has read, so there is nothing to erase in it.
    """

    name: str
    """What it is called in messages and records."""
    size: int
    """How many tokens there are, the special ones included: what a model's vocabulary must be."""
    pad: int
    """The token that short texts are filled up with; no text has it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.size:,} tokens)"

    @abstractmethod
    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        """The tokens of each text; faster than one by one where words come again.

        `goes_on`: whether each text goes on from another one, so that nothing is put before it.
        """

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these tokens; special ones, and what fills up, are left out."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; no special ones are put before it or after it."""
        return self.encode_all([text])[0]

    def opening(self, word: str) -> int:
        """The token that `word` begins with in running text: of " Dutch" in GPT-2 " Dutch", in bytes "D".

        By it a causal model answers with one of several words. A space that is a token by itself is passed
        over, for with it all words would begin alike.
        """
        before = self.encode(BEFORE)
        whole = self.encode(f"{BEFORE} {word.strip()}")
        apart = whole[: len(before)] == before
        for token in whole[len(before) :] if apart else self.encode(f" {word.strip()}"):
            if self.decode([token]).strip():
                return token
        raise DataError(f"{self.name}: {word!r} has no token that it begins with")

    def wording(self, classes: Sequence[str] = ()) -> Wording:
        """What data knows of texts that were made by it, whose `classes` are called so."""
        return Wording(self.name, tuple(self.encode(SENTENCE)), self.pad, tuple(classes))

    def check(self, tokens: Sequence[int]) -> None:
        """Refuse what is no token."""
        for token in tokens:
            if not 0 <= token < self.size:
                raise DataError(f"{self.name}: there is no token {token}; they go from 0 to {self.size - 1}")


class Characters(Tokenizer):
    """A token for each character of `vocabulary`, one for all others, and one that fills up."""

    def __init__(self, vocabulary: str = CHARACTERS) -> None:
        self.name = "characters"
        self.vocabulary = vocabulary
        self.unknown, self.pad = len(vocabulary), len(vocabulary) + 1
        self.size = len(vocabulary) + 2
        self._tokens = {character: i for i, character in enumerate(vocabulary)}

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        return [[self._tokens.get(character, self.unknown) for character in text] for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        shown = f"{self.vocabulary}\N{REPLACEMENT CHARACTER}"
        return "".join(shown[token] for token in tokens if token != self.pad)


class Bytes(Tokenizer):
    """A token for each byte of UTF-8, and one that fills up."""

    name = "bytes"
    size, pad = 257, 256

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        return [list(utf8(text)) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        return bytes(token for token in tokens if token != self.pad).decode("utf-8", "replace")


def utf8(text: str) -> bytes:
    """Half of a surrogate pair, which JSON can hold and UTF-8 cannot, becomes a question mark."""
    return text.encode("utf-8", "replace")
