"""Pieces with scores, as SentencePiece merges them [1], in the files of llama2.c (`tok512.bin`).

Of all neighbouring pieces those are merged whose sum has the best score; a character that is no piece becomes
the bytes of its UTF-8.

[1] T. Kudo and J. Richardson, SentencePiece, EMNLP 2018.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from unknot.core.errors import DataError
from unknot.text.alphabet import Tokenizer, utf8
from unknot.text.merging import merged

UNKNOWN, BEGIN, END, BYTES = 0, 1, 2, 3
"""Tokens 0 to 2 are special, and 256 tokens from `BYTES` on are bytes."""
FIRST_PIECE = BYTES + 256
_WORDS = re.compile(" *[^ ]+| +")


class Scored(Tokenizer):
    """Pieces with scores. A space is put before a text, as in training, and taken off in `decode`."""

    def __init__(self, name: str, pieces: Sequence[bytes], scores: Sequence[float]) -> None:
        self.name, self.size, self.pad = name, len(pieces), END
        if self.size < FIRST_PIECE:
            raise DataError(f"{name}: {self.size} pieces, but the first {FIRST_PIECE} are special or bytes")
        self._texts = [b""] * BYTES + [bytes([byte]) for byte in range(256)] + list(pieces[FIRST_PIECE:])
        self._scores = scores
        self._pieces: dict[bytes, int] = {}
        for token in range(FIRST_PIECE, self.size):
            self._pieces.setdefault(self._texts[token], token)
        # No piece goes on after a space, so words can be merged one by one.
        self._apart = not any(b" " in piece.lstrip(b" ") for piece in self._pieces)

    def encode_all(self, texts: Iterable[str], *, goes_on: bool = False) -> list[list[int]]:
        known: dict[str, list[int]] = {}  # goes with the call: a tokenizer keeps nothing of anybody's words
        found = []
        for text in texts:
            tokens: list[int] = []
            spaced = f" {text}" if text and not goes_on else text
            for word in _WORDS.findall(spaced) if self._apart else [spaced]:
                mine = known.get(word)
                if mine is None:
                    mine = known[word] = self._word(word)
                tokens += mine
            found.append(tokens)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        self.check(tokens)
        whole = b"".join(self._texts[token] for token in tokens).decode("utf-8", "replace")
        return whole.removeprefix(" ")

    def _word(self, word: str) -> list[int]:
        symbols: list[int] = []
        for character in word:
            raw = utf8(character)
            piece = self._pieces.get(raw)
            symbols += [BYTES + byte for byte in raw] if piece is None else [piece]
        return merged(symbols, self._best)

    def _best(self, left: int, right: int) -> tuple[float, int] | None:
        if left < FIRST_PIECE or right < FIRST_PIECE:  # bytes stay bytes
            return None
        piece = self._pieces.get(self._texts[left] + self._texts[right])
        return None if piece is None else (-self._scores[piece], piece)


def llama2c(path: Path) -> Scored:
    """The tokenizer in a file of llama2.c: a number of no use, then of each piece score, length, bytes."""
    raw = path.read_bytes()
    pieces: list[bytes] = []
    scores: list[float] = []
    place = 4
    while place < len(raw):
        if place + 8 > len(raw):
            raise _broken(path, place)
        score, length = struct.unpack_from("<fi", raw, place)
        place += 8
        if length < 0 or place + length > len(raw):
            raise _broken(path, place)
        pieces.append(raw[place : place + length])
        scores.append(score)
        place += length
    if pieces[BYTES : BYTES + 1] != [b"<0x00>"]:
        raise DataError(
            f"{path}: expected llama2.c's tokenizer, scores and pieces, found {len(raw):,} other bytes"
        )
    return Scored(path.name, pieces, scores)


def _broken(path: Path, place: int) -> DataError:
    return DataError(
        f"{path}: expected llama2.c's tokenizer, scores and pieces; it breaks off at byte {place:,}"
    )
