"""Byte-pair encoding over bytes, as GPT-2 does it [1] and most models since.

A text is cut into words, a word into bytes; of all neighbouring pairs the one that was learned first is
merged, until none is left that was learned.

[1] A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unknot.core.errors import DataError
from unknot.text.alphabet import Tokenizer, utf8
from unknot.text.merging import merged
from unknot.text.patterns import GPT2, words

Pair = tuple[str, str]


def _signs() -> dict[str, int]:
    """The printable sign that files have for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _signs()


class BytePair(Tokenizer):
    """Byte-level byte-pair encoding.

    A byte that the vocabulary has no token for (some lack those that UTF-8 never uses, or control characters)
    is left out, as Hugging Face's tokenizers do.
    """

    def __init__(
        self,
        name: str,
        vocabulary: Mapping[str, int],
        merges: Iterable[Pair],
        *,
        pad: int,
        special: Iterable[int] = (),
        patterns: tuple[str, ...] = (GPT2,),
        whole_words: bool = False,
    ) -> None:
        """No text becomes a `special` token; with `whole_words` a word that is a token is not cut."""
        self.name, self.pad = name, pad
        hidden = {*special, pad}
        self.size = max(*vocabulary.values(), *hidden) + 1
        self._patterns = patterns
        self._bytes = [vocabulary.get(sign) for sign, _ in sorted(BYTE_OF.items(), key=lambda pair: pair[1])]
        self._texts: dict[int, bytes] = {}
        for token, number in vocabulary.items():
            if number not in hidden:
                self._texts[number] = _bytes_of(name, token)
        self._merges: dict[tuple[int, int], tuple[float, int]] = {}
        for rank, (left, right) in enumerate(merges):
            try:
                pair = vocabulary[left], vocabulary[right]
                self._merges.setdefault(pair, (rank, vocabulary[left + right]))
            except KeyError as error:
                raise DataError(
                    f"{name}: {left!r} and {right!r} are to be merged, but {error.args[0]!r} is no token. "
                    "Do the two files belong together?"
                ) from None
        self._whole = {text: number for number, text in self._texts.items()} if whole_words else {}

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        known: dict[str, list[int]] = {}  # goes with the call: a tokenizer keeps nothing of anybody's words
        found = []
        for text in texts:
            tokens: list[int] = []
            for word in words(text, self._patterns):
                mine = known.get(word)
                if mine is None:
                    mine = known[word] = self._word(utf8(word))
                tokens += mine
            found.append(tokens)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        return b"".join(self._texts.get(token, b"") for token in tokens).decode("utf-8", "replace")

    def _word(self, raw: bytes) -> list[int]:
        if raw in self._whole:
            return [self._whole[raw]]
        symbols = [token for byte in raw if (token := self._bytes[byte]) is not None]
        merges = self._merges
        return merged(symbols, lambda left, right: merges.get((left, right)))


def _bytes_of(name: str, token: str) -> bytes:
    try:
        return bytes(BYTE_OF[sign] for sign in token)
    except KeyError:
        raise DataError(f"{name}: the token {token!r} is not written in GPT-2's signs for bytes") from None
