"""What becomes of a claim: its comparisons, what they make of it, and the words for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unknot.reproduce.intervals import Interval

HOLDS, PARTLY, LEVEL, FAILS, CHANCE = "holds", "holds in part", "not shown", "does not hold", "at chance"
MOST = 3
"""So many comparisons that are level are named."""


@dataclass(frozen=True)
class Comparison:
    """A part of a claim: as the paper has it (`so` is 1), the contrary (-1), or neither is shown (0)."""

    what: str
    """``MMT − BMT``: whose difference it is."""
    difference: Interval | None
    so: int
    contrary: str
    level: str
    """What is said of it where neither is shown."""
    because: str = ""
    """Why the two are level, where that is not the spread over the seeds."""
    favour: float = 0.0
    """By how much the mean is on the claim's side of its bound; below 0, on the other side."""
    seeds: int | None = None
    """Of how many it is, where there is no difference."""
    word: str = ""
    """What can be said of it in company where neither is shown: `level`, `undecided`; of some, nothing."""

    def decided(self, seeds: int) -> Comparison:
        """One seed decides nothing where there are more; more, but not all, are said to be so many."""
        mine = self.seeds if self.difference is None else self.difference.n
        if mine is None or mine == seeds:
            return self
        if mine > 1:
            return replace(self, what=f"{self.what} ({mine} of {seeds} seeds)")
        return replace(self, so=0, level=f"{self.what}: one seed", because="", word="")

    def blind(self, why: str = "both at chance") -> Comparison:
        """Of two that have learned nothing: which of them guesses better says nothing."""
        return replace(self, so=0, because=why)


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
    ours: bool = False
    """Whether the paper's text does not say it."""
    by: str = ""
    """What was measured, in words; of games the panel says it."""


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
    level = [c for c in comparisons if c.so == 0]
    told = dict.fromkeys(f"{c.level} ({c.because})" if c.because else c.level for c in level)
    words = {c.word for c in level}
    if len(told) <= MOST or len(words) > 1 or "" in words:
        return ", ".join(told)
    word = words.pop()
    others = [c.what for c in comparisons if c.so != 0]
    count = (
        f"{len(level)} of {len(comparisons)} comparisons {word}"
        if others
        else f"all {len(level)} comparisons {word}"
    )
    beside = f", all but {' and '.join(others)}" if 0 < len(others) <= MOST else ""
    reasons = Counter(c.because for c in level if c.because)
    return "; ".join([count + beside, *(f"{reason} in {n}" for reason, n in reasons.items())])
