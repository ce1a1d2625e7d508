"""What can go wrong, said so that the reader knows what to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnknotError(Exception):
    """The root of every error that unknot raises on purpose."""


class ConfigError(UnknotError, ValueError):
    """A setting is unknown or impossible. Raised before any training starts."""


class RequestError(ConfigError):
    """A join or erase request cannot be served (unknown client, already erased...)."""


class DataError(UnknotError):
    """A data file is missing, truncated, or not what it should be; or samples that nobody can train with."""


class ErasedDataError(UnknotError):
    """Somebody reached for data that has been erased."""


class StoreFullError(UnknotError):
    """A method's history needs more room than it was allowed."""


class ForbiddenLineageError(UnknotError):
    """Weights shaped by erased data were about to be used."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` when a known word is close to `word`, else a list of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(options)}." if options else ""
