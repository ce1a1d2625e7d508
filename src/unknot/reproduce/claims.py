"""Whether what a paper says held: computed from the measures by one rule, never written down.

A claim comes apart into comparisons: of two lines, of a line and a bound. Each is made seed by seed, since
both lines of a seed have the same data and the same draws, and has the 95 % interval of its mean over the
seeds. A comparison is as the paper says, or the contrary, where that interval leaves 0 out; else the two are
level: a tie is, and so is what the spread over the seeds may have made. Who does not reach a threshold
counts as reaching it when its own run ends, or with the other where that is later still: a difference is
never made larger than what was seen. Of the cases drawn for a seed, those that do not arrive count so, and
the others as they arrived. Two perplexities that have diverged are level. Who had fewer reports than KNOT's
stopping rule looks at could not meet it, and counts as meeting it with the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from unknot.core.metrics import METRICS
from unknot.reproduce.intervals import Interval
from unknot.reproduce.measures import LineFindings, PanelFindings
from unknot.reproduce.parts import (
    ARRIVALS,
    BETRAYALS,
    EXPOSURES,
    FOOTPRINTS,
    LOSSES,
    QUALITIES,
    RULED,
    WHOLE,
    Claim,
)
from unknot.reproduce.verdicts import CHANCE, FAILS, HOLDS, LEVEL, Comparison, Verdict, outcome_of, why

HUGE, DIVERGED = 1e6, 1e12
"""Perplexities whose digits say nothing; and those of which, losses being capped, not even the size does."""
LEVELS = tuple(name for name in QUALITIES if name not in ("rise", *LOSSES))
"""Measures of how well a model does at some moment; the others are of how much that changes."""
NEAR_CHANCE = 0.01
"""A model that is no further above chance than that has learned nothing that a claim could be about."""


def judge(claim: Claim, panels: Sequence[PanelFindings]) -> list[Verdict]:
    """A verdict a panel, for panels in which every line of the claim has been run."""
    about = [
        panel
        for panel in panels
        if (not claim.panels or panel.name in claim.panels)
        and claim.names - set(panel.without) <= {line.name for line in panel.lines}
        and (claim.measure not in (*ARRIVALS, "speedup") or panel.thresholds)
        and claim.than not in panel.without
        and (claim.measure not in (*EXPOSURES, *FOOTPRINTS) or _measured(claim, panel))
        and (claim.measure not in RULED or all(line.judged for line in panel.lines))
        and not (claim.lines and set(claim.lines) <= set(panel.without))
        and not (claim.order and len([g for g in claim.order if set(g) - set(panel.without)]) < 2)
    ]
    if claim.gap:
        return [_gap_verdict(claim, about)] if len(about) > 1 else []
    return [_Panel(claim, panel).verdict() for panel in about]


class _Panel:
    """A claim, put to one panel."""

    def __init__(self, claim: Claim, panel: PanelFindings) -> None:
        self.claim, self.panel = claim, panel
        self.lines = {line.name: line for line in panel.lines if line.name in claim.names}
        self.factor = _factor(claim, panel)
        self.sign = -1 if _falls(claim, panel.metric) else 1
        self.perplexities = panel.metric == "perplexity" and claim.measure in LEVELS
        # They are compared by their logarithms, the loss: one that has diverged would drown all else.
        self.log = self.perplexities and bool(claim.order or claim.gap)

    def verdict(self) -> Verdict:
        claim = self.claim
        seeds = self.most_seeds()
        comparisons = tuple(c.decided(seeds) for c in self.comparisons())
        outcome = outcome_of(c.so for c in comparisons)
        reason = why(outcome, comparisons)
        if self.nobody():
            outcome, reason = LEVEL, "nobody gets there"
        elif claim.never:
            reason = self.why_never(outcome, reason)
        elif all(map(self.guesses, self.lines.values())):
            outcome, reason = CHANCE, f"chance is {self.chance}"
        return Verdict(
            claim.says,
            claim.measure,
            self.panel.title,
            outcome,
            reason,
            seeds,
            self.figures(self.show),
            comparisons,
            self.published(),
            bool(self.panel.earlier),
        )

    def comparisons(self) -> Iterable[Comparison]:
        claim = self.claim
        named = [self.lines[name] for name in claim.lines if name in self.lines]
        if claim.never:
            return [self.never(line) for line in named]
        if claim.above is not None:
            return [self.above(line, claim.above) for line in named]
        if claim.alike is not None:
            pairs = itertools.combinations(named, 2)
            return [self.alike(a, b, claim.alike) for a, b in pairs]
        if claim.less is not None and claim.than is not None:
            return [self.less(line, self.lines[claim.than], claim.less) for line in named]
        groups = [[self.lines[n] for n in group if n in self.lines] for group in claim.order]
        return [
            self.before(better, worse)
            for i, group in enumerate(groups)
            for better in group
            for worse in itertools.chain(*groups[i + 1 :])
        ]

    # Comparisons ---------------------------------------------------------------------------------

    def before(self, better: LineFindings, worse: LineFindings) -> Comparison:
        found = self.paired(lambda a, b: a - b, better, worse)
        compared = Comparison(
            f"{better.label} − {worse.label}{' in log perplexity' if self.log else ''}",
            found,
            self.sign * found.sign if found else 0,
            contrary=f"{worse.label} before {better.label}",
            level=self.unmatched(better, worse) or f"{better.label} level with {worse.label}",
            because=self.too_brief(better, worse),
            favour=self.sign * found.mean if found else 0.0,
        )
        return self.seeing(compared, better, worse)

    def above(self, line: LineFindings, bound: float) -> Comparison:
        found = self.paired(lambda a: a - self.factor * bound, line)
        shown = f"{self.factor * bound:g}"
        so = found.sign if found else 0
        return Comparison(
            f"{line.label} − {shown}",
            found,
            0 if so < 0 and self.misses(line) else so,  # it may yet have come later
            contrary=f"{line.label} below {shown}",
            level=self.unmatched(line) or f"{line.label} level with {shown}",
            favour=found.mean if found else 0.0,
        )

    def alike(self, a: LineFindings, b: LineFindings, most: float) -> Comparison:
        found = self.paired(lambda x, y: x - y, a, b)
        so, favour, names = 0, 0.0, f"{a.label} and {b.label}"
        if found is not None:
            low, high = _bounds(found)
            bound = self.factor * most + 1e-9
            favour = self.factor * most - abs(found.mean)
            unknown = self.misses(a) or self.misses(b) or self.both_lost(a, b)
            within = -bound <= low and high <= bound and not unknown
            so = 1 if within else -1 if low > bound or high < -bound else 0
        compared = Comparison(
            f"{a.label} − {b.label}",
            found,
            so,
            contrary=f"{names} apart",
            level=self.unmatched(a, b) or f"{names} undecided",
            favour=favour,
        )
        return self.seeing(compared, a, b)

    def less(self, line: LineFindings, than: LineFindings, share: float) -> Comparison:
        def saved(mine: float, other: float) -> float:
            if other:
                return 100 * (1 - mine / other)
            return 0.0 if not mine else -100.0  # from who is there at once, there is nothing to save

        found = self.paired(saved, line, than, apart=True)
        so = 0
        if found is not None:
            low, high = _bounds(found)
            # A hair is allowed: 45 of 100 is 55 % less, whatever the last digit of 1 - 0.45 is.
            so = 1 if low >= 100 * share - 1e-7 else -1 if high < 100 * share - 1e-7 else 0
            # Who misses it takes at least as long as its run: that bounds what is saved from one side alone.
            if (so > 0 and self.misses(line)) or (so < 0 and self.misses(than)):
                so = 0
        return Comparison(
            f"{line.label} saves",
            found,
            so,
            contrary=f"{line.label} saves less than that",
            level=self.unmatched(line, than) or f"{line.label} undecided",
            favour=found.mean - 100 * share if found else 0.0,
        )

    def never(self, line: LineFindings) -> Comparison:
        values = line.by_seed[self.claim.measure].values()
        there, partly = sum(value is not None for value in values), len(self.partly(line))
        some = f" and for some of the leavers in {partly}" if partly else ""
        return Comparison(
            f"{line.label} never",
            None,
            1 if not there + partly else -1 if there == len(values) else 0,
            contrary=f"{line.label} gets there",
            level=f"{line.label} gets there in {there} of {len(values)} seeds{some}",
            seeds=len(values),
        )

    # Values --------------------------------------------------------------------------------------

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

    def seeing(self, compared: Comparison, *lines: LineFindings) -> Comparison:
        """The same; blind where all of the lines guess, or have diverged, in every seed."""
        if all(map(self.guesses, lines)):
            return compared.blind()
        common = self.common(*lines)
        return compared.blind("both diverged") if common and self.both_lost(*lines) == common else compared

    def unmatched(self, *lines: LineFindings) -> str:
        """Why lines cannot be compared, where no seed has a value of all of them."""
        names, common = " and ".join(line.label for line in lines), self.common(*lines)
        if any(None not in self.row(lines, seed) for seed in common):
            return ""
        return f"{names}: {'not measured' if common else 'no seed in common'}"

    def could_not(self, line: LineFindings, seed: int) -> bool:
        """Whether a line's run had too few reports for the rule that the claim goes by."""
        return self.claim.measure in RULED and seed in line.brief

    def too_brief(self, *lines: LineFindings) -> str:
        """Who had too few reports for the rule, where that is why two are level."""
        found = [line.label for line in lines if any(self.could_not(line, seed) for seed in line.seeds)]
        return f"too few reports: {' and '.join(found)}" if found else ""

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

    # Words ---------------------------------------------------------------------------------------

    @property
    def chance(self) -> str:
        return "" if self.panel.chance is None else f"{100 * self.panel.chance:.3g} %"

    def why_never(self, outcome: str, reason: str) -> str:
        """Who never arrives might have later, but for those who learned nothing: that is worth saying."""
        if outcome == FAILS:
            return reason
        guessers = [line.label for line in self.lines.values() if self.guesses(line)]
        if outcome == HOLDS:
            if len(guessers) == len(self.lines):
                return f"at chance, {self.chance}"
            reason = "within the run"
        return f"{reason}; {' and '.join(guessers)} at chance, {self.chance}" if guessers else reason

    def published(self) -> str:
        """The paper's figures of this measure, and of what they are where that is not what was run."""
        if self.claim.published:
            return self.claim.published
        if self.claim.measure not in self.panel.published_by:
            return ""
        found = self.figures(lambda line: self.panel.published.get(line.name))
        of = self.panel.published_for
        return f"{found} ({of})" if found and of else found

    def figures(self, of: Callable[[LineFindings], str | None]) -> str:
        """``MMT 3, BMT 5``: of the claim's lines, in its order."""
        claim = self.claim
        order = (claim.than, *itertools.chain(*claim.order), *claim.lines)
        named = [self.lines[name] for name in dict.fromkeys(order) if name in self.lines]
        return ", ".join(f"{line.label} {text}" for line in named if (text := of(line)) is not None)

    def show(self, line: LineFindings) -> str:
        measure, stat = self.claim.measure, line.measures.get(self.claim.measure)
        if measure in ARRIVALS:
            if stat is None:
                return self.not_there(line)
            part = "" if stat.n == stat.asked else f" (in {stat.n} of {stat.asked} seeds)"
            return f"{stat.mean:.1f}{part}"
        if stat is None:
            return "–"
        if measure in ("ids", "speedup"):
            return f"{stat.mean:.2f}{' ×' if measure == 'speedup' else ''}"
        if measure == "f1_fall":
            return f"{'falls' if stat.mean >= 0 else 'rises'} by {abs(100 * stat.mean):.0f} %"
        if measure in (*EXPOSURES, *FOOTPRINTS):
            return f"{stat.mean:.2f}{self.beside_first(line) if measure in FOOTPRINTS else ''}"
        if measure == "rise":
            return f"{self.factor * stat.mean:+.1f}".replace("-", "−")
        if self.perplexities and stat.mean >= HUGE:
            seeds = line.by_seed[measure].values()
            lost = sum(value is not None and value >= DIVERGED for value in seeds)
            return f"diverged in {lost} of {len(seeds)} seeds" if lost else f"{stat.mean:.0e}"
        # A loss in per cent would read as what is left.
        unit = "" if self.factor == 1 else " points" if measure in LOSSES else " %"
        return f"{self.factor * stat.mean:.1f}{unit}"

    def beside_first(self, line: LineFindings) -> str:
        """`` (50 % more)``: than the line that an order names first; any more at all would be as it says."""
        first = self.lines[self.claim.order[0][0]] if self.claim.order else line
        if line is first:
            return ""
        more = line.measures[self.claim.measure].mean / first.measures[self.claim.measure].mean - 1
        return f" ({abs(100 * more):.0f} % {'more' if more >= 0 else 'less'})"

    def not_there(self, line: LineFindings) -> str:
        """``not by 279 to 298 s``: how long a line was given that did not arrive; it might have, later."""
        measure = self.claim.measure
        ends = sorted(line.ends[measure].values())
        spans = " to ".join(dict.fromkeys(f"{end:.0f}" for end in (ends[0], ends[-1]))) if ends else "0"
        word = "by" if measure in WHOLE else "in"
        all_of = "for all leavers " if self.partly(line) else ""
        return f"not {all_of}{word} {spans} {'rounds' if measure == 'rounds' else 's'}"


def _gap_verdict(claim: Claim, panels: Sequence[PanelFindings]) -> Verdict:
    """Whether the distance of two lines shrinks from panel to panel."""
    parts = [_Panel(claim, panel) for panel in panels]
    first, second = claim.gap

    def gap(part: _Panel, seed: int) -> float | None:
        pair = [part.lines[first], part.lines[second]]
        mine, other = part.row(pair, seed)
        return None if mine is None or other is None or seed in part.both_lost(*pair) else abs(mine - other)

    seeds = set.intersection(*(set(line.seeds) for part in parts for line in part.lines.values()))
    gaps = [{s: g for s in seeds if (g := gap(part, s)) is not None} for part in parts]
    comparisons = []
    for (one, a), (two, b) in itertools.pairwise(zip(panels, gaps, strict=True)):
        both = sorted(a.keys() & b.keys())
        found = Interval.of([a[seed] - b[seed] for seed in both]) if both else None
        comparisons.append(
            Comparison(
                f"gap in {one.title} − {two.title}",
                found,
                found.sign if found else 0,
                contrary=f"wider in {two.title} than in {one.title}",
                level=f"{one.title} level with {two.title}"
                if both
                else f"{one.title} and {two.title}: no seed has a gap in both",
                favour=found.mean if found else 0.0,
            )
        )
    comparisons = [comparison.decided(len(seeds)) for comparison in comparisons]
    outcome = outcome_of(c.so for c in comparisons)
    shown = [(p.title, sum(g.values()) / len(g)) for p, g in zip(panels, gaps, strict=True) if g]
    detail = ", ".join(f"{title} {mean:+.1f}" for title, mean in shown)
    reason = why(outcome, comparisons)
    if all(part.guesses(line) for part in parts for line in part.lines.values()):
        outcome, reason = CHANCE, f"chance is {', '.join(dict.fromkeys(part.chance for part in parts))}"
    return Verdict(
        claim.says,
        claim.measure,
        "across the panels",
        outcome,
        reason,
        len(seeds),
        detail,
        tuple(comparisons),
        claim.published,
        earlier=any(panel.earlier for panel in panels),
    )


def _bounds(found: Interval) -> tuple[float, float]:
    if found.low is None or found.high is None:
        return found.mean, found.mean
    return found.low, found.high


def _measured(claim: Claim, panel: PanelFindings) -> bool:
    """What nobody measured neither holds nor fails."""
    return all(claim.measure in line.measures for line in panel.lines if line.name in claim.names)


def _falls(claim: Claim, metric: str) -> bool:
    """Whether less is better. What is above a bound is so whether that is good or not."""
    if claim.above is not None:
        return False
    less = (*ARRIVALS, *BETRAYALS, *FOOTPRINTS, *LOSSES, "ids")
    return claim.measure in less or (METRICS[metric].falls and claim.measure in QUALITIES)


def _factor(claim: Claim, panel: PanelFindings) -> float:
    """Accuracies are shown in per cent, everything else as it is."""
    return 100.0 if claim.measure in QUALITIES and METRICS[panel.metric].share else 1.0
