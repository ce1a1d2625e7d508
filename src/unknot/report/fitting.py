"""Lines of characters that keep to a width."""

from __future__ import annotations

import textwrap

USUAL = 80
"""The width of a screen of which nothing is known."""
GLUE = "\N{NO-BREAK SPACE}"
"""A space at which no line is broken."""


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """In lines of at most this width, the second and later ones indented by `hang`."""
    lines = textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(GLUE, " ") for line in lines] or [""]
