r"""How a text is cut into words before pairs are merged: the patterns that models were trained with.

They are written with ``\p{L}`` and ``\p{N}``, which Python's `re` does not know: classes of characters are
made from `unicodedata`, once, when a pattern is first needed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from unknot.core.errors import DataError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
DIGIT = r"\p{N}"
PRE: dict[str, tuple[str, ...]] = {
    "gpt-2": (GPT2,),
    "default": (GPT2,),
    "smollm": (DIGIT, GPT2),
    "llama-bpe": (LLAMA3,),
}
"""By the name that GGUF files give: one pattern after the other cuts what the one before has left whole."""

SPACES = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Unicode calls white space: Python's own ``\\s`` has four control characters more."""
_PLANES = 0x40000
"""Beyond these four planes Unicode has no letters and no numbers."""
_NAMED = re.compile(r"\\(p\{[LN]\}|[sS])|\[(?:\\.|[^\]\\])*\]")


@cache
def _class(category: str) -> str:
    """The characters of a category, as the inside of brackets."""
    ranges: list[list[int]] = []
    for code in range(_PLANES):
        if unicodedata.category(chr(code))[0] != category:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in the words of Python's `re`, as one group: `split` gives finds, and what is between."""

    def inside(found: re.Match[str]) -> str:
        name = found.group(1)
        if name == "S":
            raise DataError(rf"{pattern!r}: \S in brackets is not read")
        return SPACES if name == "s" else _class(name[2])

    def known(found: re.Match[str]) -> str:
        whole = found.group()
        if whole.startswith("["):
            return re.sub(r"\\(p\{[LN]\}|[sS])", inside, whole)
        return f"[^{SPACES}]" if whole == r"\S" else f"[{inside(found)}]"

    return re.compile(f"({_NAMED.sub(known, pattern)})")


def words(text: str, patterns: tuple[str, ...]) -> list[str]:
    """A text in pieces that are merged each by itself; put together they are the text."""
    pieces = [text]
    for pattern in patterns:
        split = compiled(pattern).split
        pieces = [part for piece in pieces for part in split(piece) if part]
    return pieces
