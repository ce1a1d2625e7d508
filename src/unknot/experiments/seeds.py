"""Several seeds: how they are written, and mean and spread over them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unknot.core.errors import ConfigError

MOST, DIGITS = 10_000, 18
"""How many seeds may be named at once, and how long one may be: more is a slip."""


def parse_seeds(text: str) -> tuple[int, ...]:
    """``0,1,2`` or ``0-4`` as seeds, or both: ``0-2,7``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise ConfigError(
                f"seeds are whole numbers, with commas between or from-to: 0,1,2 or 0-4, not {text!r}"
            )
        if len(max(first, last, key=len)) > DIGITS:
            raise ConfigError(f"a seed has at most {DIGITS} digits: {text[:40]!r} names a longer one")
        if dash and int(last) < int(first):
            raise ConfigError(f"seeds from {first} to {last} are none: write the lower one first")
        asked = range(int(first), int(last or first) + 1)
        if len(found) + len(asked) > MOST:
            raise ConfigError(f"{text[:40]!r} names more than {MOST:,} seeds: each is a run; name fewer")
        found += asked
    if twice := [seed for seed, times in Counter(found).items() if times > 1]:
        raise ConfigError(f"seed {min(twice)} is named twice in {text!r}")
    return tuple(found)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


@dataclass(frozen=True)
class Stat:
    """Mean and sample deviation over `n` seeds; of `asked` seeds, the others have no value.

    Where the mean is not finite, there is no deviation.
    """

    mean: float
    std: float | None
    n: int
    asked: int

    @staticmethod
    def of(values: Iterable[float | None]) -> Stat | None:
        """None where no seed has a value."""
        every = list(values)
        found = [value for value in every if value is not None]
        if not found:
            return None
        middle = mean(found)
        std = statistics.stdev(found) if len(found) > 1 and math.isfinite(middle) else None
        return Stat(middle, std, len(found), len(every))


def mean(values: Sequence[float]) -> float:
    """Also of what is past all numbers, as a perplexity may be: infinite, or no number."""
    try:
        return statistics.fmean(values)
    except (OverflowError, ValueError):  # of a sum that is too large, and of both infinities
        return sum(values) / len(values)
