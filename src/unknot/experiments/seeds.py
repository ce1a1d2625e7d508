"""Several seeds: how they are written, and mean and spread over them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from unknot.core.errors import ConfigError


def parse_seeds(text: str) -> tuple[int, ...]:
    """``0,1,2`` or ``0-4`` as seeds, or both: ``0-2,7``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(
                f"seeds are whole numbers, with commas between or from-to: 0,1,2 or 0-4, not {text!r}"
            )
        found += range(int(first), int(last or first) + 1)
        if dash and int(last) < int(first):
            raise ConfigError(f"seeds from {first} to {last} are none: write the lower one first")
    if twice := {seed for seed in found if found.count(seed) > 1}:
        raise ConfigError(f"seed {min(twice)} is named twice in {text!r}")
    return tuple(found)


@dataclass(frozen=True)
class Stat:
    """Mean and sample deviation over `n` seeds; of `asked` seeds, the others have no value."""

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
        std = statistics.stdev(found) if len(found) > 1 else None
        return Stat(statistics.fmean(found), std, len(found), len(every))
