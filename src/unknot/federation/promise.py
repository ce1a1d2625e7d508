"""What a guarantee does not cover, in words: the same in a run's record, on the methods' pages, in tests."""

from __future__ import annotations

from collections.abc import Sequence

WHOM = "whom the selector asked, which it knew the erased client for"
WHEN = "when the others were asked, which depends on how long the erased client took"
HOW_MANY = "how many rounds came before and after a request, which the erased client had a part in"
STOPPED = "how long was trained before the request, which the erased data had a part in"


def qualified(promise: str, exact: bool, uncovered: Sequence[str]) -> str:
    """The promise, and what it does not cover; of an approximate one, what is approximate as well."""
    if not uncovered:
        return promise
    listed = " and ".join(uncovered)
    if not exact:
        return f"{promise}; so is {listed}"
    return f"{promise} and {listed}" if ", but for " in promise else f"{promise}, but for {listed}"
