"""What can go wrong, said so that the reader knows what to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnknotError(Exception):
    """The root of every error that unknot raises on purpose."""


class ConfigError(UnknotError, ValueError):
    """A setting is unknown or impossible. Raised before any training starts.

    Where that is about one: its `key`, what was `found` there, and the `nearest` name that there is.
    """

    def __init__(self, message: str = "", *, key: str = "", found: object = None, nearest: str = "") -> None:
        super().__init__(message)
        self.key, self.found, self.nearest = key, found, nearest


class RequestError(ConfigError):
    """A join or erase request cannot be served (unknown client, already erased...).

    Its `kind` says why without naming anybody: that may be kept when who is named was erased.
    """

    def __init__(self, message: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class DataError(UnknotError):
    """A data file is missing, truncated, or not what it should be; or samples that nobody can train with."""


class ErasedDataError(UnknotError):
    """Somebody reached for data that has been erased."""


class StoreFullError(UnknotError):
    """A method's history takes more memory than it was allowed: bytes, by the `setting` of its method."""

    setting = "memory"

    def __init__(self, needed: int, limit: int) -> None:
        self.needed, self.limit = needed, limit
        super().__init__(
            f"the method's history takes {needed / 2**20:.4g} MiB by now, and {self.setting} allows it "
            f"{limit / 2**20:.4g} MiB. Allow it more ({self.setting}, in MiB), or train for fewer rounds"
        )


class RunStopped(UnknotError):
    """A run was asked from outside to stop, and has: it can be gone on with."""


class StoreError(UnknotError):
    """A file of a run's folder is missing, damaged or not ours, or cannot be written."""


class ForbiddenLineageError(UnknotError):
    """Weights shaped by erased data were about to be used."""


NEAR = 0.65
"""How alike two words are, of 1, for one to be taken for a slip of the other."""
FEW = 15
"""So many known words are listed whether or not one of them is near."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` when a known word is close to `word`; a list if none is, or of few.

    A word that is close but for its capitals is close.
    """
    options = sorted(known)
    close = near(word, options)
    meant = f" Did you mean {close!r}?" if close else ""
    listed = f" Known: {', '.join(options)}." if options and (not close or len(options) <= FEW) else ""
    return meant + listed


def near(word: str, known: Iterable[str]) -> str:
    """The known word that is close to another one, capitals or not; nothing where none is."""
    options = sorted(known)
    folded = {option.casefold(): option for option in reversed(options)}
    close = difflib.get_close_matches(word, options, n=1, cutoff=NEAR) or [
        folded[one] for one in difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=NEAR)
    ]
    return close[0] if close else ""


def install(extra: str) -> str:
    """How what an extra needs is installed: unknot is on no index, and a stranger's package may be."""
    return f"in your clone, pip install -e '.[{extra}]'"


def said(error: BaseException) -> str:
    """Its kind and its words; an error of one's own may have none that can be read."""
    try:
        words = str(error)
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
