"""The least ε that unlearning can have, by what an attack on it found.

Unlearning is (ε, δ) if, for every set S of outcomes, the model that unlearned (P) and a model retrained
without the data (Q) have P(S) ≤ e^ε Q(S) + δ, and Q(S) ≤ e^ε P(S) + δ. An attack is a test of which of both
it sees. Let S be where it says "unlearned": P(S) is the share of hits among the unlearned, Q(S) that of
false alarms among the retrained. Both inequalities, for S and for its complement, bound ε from below.

The shares are known within limits only, so the bound holds at a level of confidence: it says that ε is
no less, never that it is no more. An attack that finds nothing shows nothing.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from unknot.audit.roc import proportion
from unknot.core.errors import ConfigError


@dataclass(frozen=True)
class Counts:
    """How often an attack that was fixed beforehand said "member": of members, and of others."""

    hits: int
    members: int
    alarms: int
    others: int

    def __post_init__(self) -> None:
        for name, said, trials in (("hits", self.hits, self.members), ("alarms", self.alarms, self.others)):
            if trials < 1:
                raise ConfigError("a bound on epsilon needs members and others, at least one of each")
            if not 0 <= said <= trials:
                raise ConfigError(f"a bound on epsilon: {name} must be in [0, {trials}], not {said}")


@dataclass(frozen=True)
class Bound:
    """A lower bound on ε that holds at a level of confidence."""

    epsilon: float
    most: float
    """What as many members and others would give at best: with all hits and no alarm."""
    level: float
    delta: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def lower_bound(counts: Counts, delta: float = 0.0, level: float = 0.95) -> Bound:
    """By Clopper and Pearson's limits on both rates, low and high, that hold at once."""
    if not 0 <= delta < 1:
        raise ConfigError(f"a bound on epsilon: delta must be in [0, 1), not {delta}")
    if not 0 < level < 1:
        raise ConfigError(f"a bound on epsilon: the level must be in (0, 1), not {level}")
    best = Counts(counts.members, counts.members, 0, counts.others)
    return Bound(_epsilon(counts, delta, level), _epsilon(best, delta, level), level, delta)


def _epsilon(counts: Counts, delta: float, level: float) -> float:
    each = (1 + level) / 2  # two intervals, each with half of the error
    caught = proportion(counts.hits, counts.members, each)
    alarmed = proportion(counts.alarms, counts.others, each)
    found = [
        (caught.low, alarmed.high),  # P(S) against Q(S)
        (1 - alarmed.high, 1 - caught.low),  # Q against P, of the complement
        (alarmed.low, caught.high),  # Q(S) against P(S): an attack that has them the wrong way round
        (1 - caught.high, 1 - alarmed.low),
    ]
    return max([0.0, *(math.log((more - delta) / less) for more, less in found if more > delta)])
