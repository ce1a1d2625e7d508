"""What a claim compares: its lines' values in a panel, seed by seed.

Who does not reach a threshold counts as reaching it when its own run ends, or with the other where that is
later still: a difference is never made larger than what was seen. Of the cases drawn for a seed, those that
do not arrive count so, and the others as they arrived. Who had fewer reports than KNOT's stopping rule looks
at could not meet it, and counts as meeting it with the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from unknot.core.metrics import METRICS
from unknot.reproduce.intervals import Interval
from unknot.reproduce.measures import LineFindings, PanelFindings
from unknot.reproduce.parts import (
    ARRIVALS,
    BETRAYALS,
    CHANGES,
    FOOTPRINTS,
    LOSSES,
    QUALITIES,
    RULED,
    Claim,
)

DIVERGED = 1e12
"""Perplexities of which, losses being capped, not even the size says anything."""
LEVELS = tuple(name for name in QUALITIES if name not in CHANGES)
"""Measures of how well a model does at some moment; the others are of how much that changes."""
NEAR_CHANCE = 0.01
"""A model that is no further above chance than that has learned nothing that a claim could be about."""


class Values:
    """The lines of a claim in one panel, by what the claim measures."""

    def __init__(self, claim: Claim, panel: PanelFindings) -> None:
        self.claim, self.panel = claim, panel
        self.lines = {line.name: line for line in panel.lines if line.name in claim.names}
        self.factor = _factor(claim, panel)
        self.sign = -1 if _falls(claim, panel.metric) else 1
        self.perplexities = panel.metric == "perplexity" and claim.measure in LEVELS
        # They are compared by their logarithms, the loss: one that has diverged would drown all else.
        self.log = self.perplexities and bool(claim.order or claim.gap)

    def value(self, line: LineFindings, seed: int) -> float | None:
        found = line.by_seed[self.claim.measure].get(seed)
        if found is not None:
            return math.log(found) if self.log else self.factor * found
        if self.claim.measure == "speedup" and line.by_seed.get("total", {}).get(seed) is None:
            # Who never arrives; where the baseline does not, or some of the cases do, nobody knows.
            return None if seed in line.partly.get("total", ()) else 0.0
        return None

    def lost(self, line: LineFindings, seed: int) -> bool:
        """Whether a line has diverged in a seed: by how far says nothing."""
        found = line.by_seed[self.claim.measure].get(seed)
        return self.perplexities and found is not None and found >= DIVERGED

    def both_lost(self, *lines: LineFindings) -> list[int]:
        """The seeds in which all of the lines have diverged."""
        return [seed for seed in self.common(*lines) if all(self.lost(line, seed) for line in lines)]

    def common(self, *lines: LineFindings) -> list[int]:
        """The seeds that all of the lines have."""
        return sorted(set.intersection(*(set(line.seeds) for line in lines)))

    def partly(self, line: LineFindings) -> Mapping[int, float]:
        """The seeds in which a line arrives in some of the cases that were drawn, and when at the soonest."""
        return line.partly.get(self.claim.measure, {})

    def could_not(self, line: LineFindings, seed: int) -> bool:
        """Whether a line's run had too few reports for the rule that the claim goes by."""
        return self.claim.measure in RULED and seed in line.brief

    def misses(self, line: LineFindings) -> bool:
        """Whether a line does not reach the threshold in some seed."""
        return self.claim.measure in ARRIVALS and None in line.by_seed[self.claim.measure].values()

    def row(self, lines: Sequence[LineFindings], seed: int, apart: bool = False) -> list[float | None]:
        """The lines' values of one seed; of arrivals, something for those too that never do.

        That is the end of the run or, unless they are looked at `apart`, another's arrival after it.
        """
        values = [self.value(line, seed) for line in lines]
        if len(lines) > 1 and all(self.lost(line, seed) for line in lines):
            return values[:1] * len(lines)
        if self.claim.measure not in ARRIVALS or None not in values:
            return values
        ends = [self.partly(line).get(seed, line.ends[self.claim.measure].get(seed, 0.0)) for line in lines]
        if apart:
            return [end if value is None else value for value, end in zip(values, ends, strict=True)]
        ends = [0.0 if self.could_not(line, seed) else end for line, end in zip(lines, ends, strict=True)]
        filled = [end if value is None else value for value, end in zip(values, ends, strict=True)]
        return [max(filled) if value is None else value for value in values]

    def paired(self, of: Callable[..., float], *lines: LineFindings, apart: bool = False) -> Interval | None:
        """By seed, for those seeds that all of the lines have a value of."""
        rows = [self.row(lines, seed, apart) for seed in self.common(*lines)]
        values = [of(*row) for row in rows if None not in row]
        return Interval.of(values) if values else None

    def guesses(self, line: LineFindings) -> bool:
        """Whether a line is at chance in every seed: one that learns in some is no guesser."""
        measure = "end" if self.claim.never else self.claim.measure
        level = self.panel.chance
        if level is None or measure not in LEVELS:
            return False
        values = [value for value in line.by_seed.get(measure, {}).values() if value is not None]
        return bool(values) and max(values) < level + NEAR_CHANCE

    def nobody(self) -> bool:
        """Whether no line gets there, of the claim; of the panel, if the claim is that some never do.

        Of the federated ones, then: what central training reaches says nothing of them.
        """
        federated = [line for line in self.panel.lines if not line.central]
        lines = federated if self.claim.never else list(self.lines.values())
        values = [v for line in lines for v in line.by_seed[self.claim.measure].values()]
        there = any(v is not None for v in values) or any(map(self.partly, lines))
        return self.claim.measure in ARRIVALS and not there

    def most_seeds(self) -> int:
        return max((len(line.seeds) for line in self.lines.values()), default=0)

    @property
    def chance(self) -> str:
        return "" if self.panel.chance is None else f"{100 * self.panel.chance:.3g} %"


def _falls(claim: Claim, metric: str) -> bool:
    """Whether less is better. What is above a bound is so whether that is good or not."""
    if claim.above is not None:
        return False
    less = (*ARRIVALS, *BETRAYALS, *FOOTPRINTS, *LOSSES, "ids")
    return claim.measure in less or (METRICS[metric].falls and claim.measure in QUALITIES)


def _factor(claim: Claim, panel: PanelFindings) -> float:
    """Accuracies are shown in per cent, everything else as it is."""
    return 100.0 if claim.measure in QUALITIES and METRICS[panel.metric].share else 1.0
