"""What somebody else may have written, as it is shown to people."""

from __future__ import annotations


def one_line(text: object, most: int = 2000) -> str:
    """So many letters of it, without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:most])


def span(numbers: set[int]) -> str:
    """Clients by their numbers, in a sentence."""
    listed = sorted(numbers)
    if len(listed) > 15:
        return f"{len(listed)} clients from {listed[0]} to {listed[-1]}"
    return f"these: {', '.join(map(str, listed))}"
