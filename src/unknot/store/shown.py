"""What somebody else may have written, as it is shown to people."""

from __future__ import annotations


def one_line(text: object, most: int = 2000) -> str:
    """So many letters of it, without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:most])
