"""What becomes of a claim: its comparisons, what they make of it, and the words for that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unknot.reproduce.intervals import Interval

HOLDS, PARTLY, LEVEL, FAILS, CHANCE = "holds", "holds in part", "not shown", "does not hold", "at chance"
MOST = 3
"""So many comparisons that are level are named."""
WORDS = ("level", "undecided")
BRIEF, BLIND = r" \((too few reports: [^()]+)\)", " (both at chance)"
"""What is added to those words: why two are level."""


@dataclass(frozen=True)
class Comparison:
    """A part of a claim: as the paper has it (`so` is 1), the contrary (-1), or neither is shown (0)."""

    what: str
    """``MMT − BMT``: whose difference it is."""
    difference: Interval | None
    so: int
    contrary: str
    level: str
    favour: float = 0.0
    """By how much the mean is on the claim's side of its bound; below 0, on the other side."""

    def decided(self, seeds: int) -> Comparison:
        """One seed decides nothing where there are more."""
        if self.difference is None or self.difference.n > 1 or seeds == 1:
            return self
        return replace(self, so=0, level=f"{self.what}: one seed")

    def blind(self) -> Comparison:
        """Of two that have learned nothing: which of them guesses better says nothing."""
        return replace(self, so=0, level=f"{self.level}{BLIND}")


@dataclass(frozen=True)
class Verdict:
    """What became of a claim of the paper in a panel."""

    says: str
    measure: str
    panel: str
    outcome: str
    why: str
    seeds: int
    detail: str
    comparisons: tuple[Comparison, ...] = ()
    published: str = ""
    """The paper's own figures, where it gives any for these lines."""
    earlier: bool = False
    """Whether the runs are of an earlier configuration."""


def outcome_of(signs: Iterable[int]) -> str:
    """Of a claim, by what became of its comparisons."""
    signs = list(signs)
    if -1 in signs:
        return FAILS
    if not any(signs):
        return LEVEL
    return HOLDS if all(signs) else PARTLY


def why(outcome: str, comparisons: Sequence[Comparison]) -> str:
    """What is the contrary or, where nothing is, what is level: of much of it, how much, and what is not."""
    if outcome == FAILS:
        return ", ".join(dict.fromkeys(c.contrary for c in comparisons if c.so < 0))
    if outcome == HOLDS:
        return ""
    level = [c.level for c in comparisons if c.so == 0]
    word = next((word for word in WORDS if all(re.search(rf" {word}\b", text) for text in level)), None)
    if len(set(level)) <= MOST or word is None:
        return ", ".join(dict.fromkeys(level))
    others = [c.what for c in comparisons if c.so != 0]
    told = f"all {len(level)} comparisons {word}"
    if others:
        told = f"{len(level)} of {len(comparisons)} comparisons {word}"
        told += f", all but {' and '.join(others)}" if len(others) <= MOST else ""
    reasons = list(dict.fromkeys(reason for text in level for reason in re.findall(BRIEF, text)))
    if blind := sum(BLIND in text for text in level):
        reasons.append(f"both at chance in {blind}")
    return "; ".join([told, *reasons])
