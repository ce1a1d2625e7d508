"""Whether what a paper says held: computed from the measures by one rule, never written down.

A claim comes apart into comparisons: of two lines, of a line and a bound. Each is made seed by seed, since
both lines of a seed have the same data and the same draws, and has the 95 % interval of its mean over the
seeds. A comparison is as the paper says, or the contrary, where that interval leaves 0 out; else the two are
level: a tie is, and so is what the spread over the seeds may have made. Two perplexities that have diverged
are level. What a line counts with that never arrives is in `claim_values`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from unknot.core.metrics import METRICS
from unknot.reproduce.claim_figures import figures_of, published_of
from unknot.reproduce.claim_values import Values
from unknot.reproduce.intervals import Interval
from unknot.reproduce.measures import LineFindings, PanelFindings
from unknot.reproduce.parts import (
    ARRIVALS,
    EXPOSURES,
    FOOTPRINTS,
    MEASURES,
    RULED,
    Claim,
)
from unknot.reproduce.verdicts import CHANCE, FAILS, HOLDS, LEVEL, Comparison, Verdict, outcome_of, why


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


class _Panel(Values):
    """A claim, put to one panel."""

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
            figures_of(self),
            comparisons,
            published_of(self),
            bool(self.panel.earlier),
            ours=claim.ours,
            by=_by(claim, self.panel),
        )

    def comparisons(self) -> Iterable[Comparison]:
        claim = self.claim
        named = [self.lines[name] for name in claim.lines if name in self.lines]
        if claim.never:
            return [self.never(line) for line in named]
        if claim.above is not None:
            return [self.beyond(line, claim.above, 1) for line in named]
        if claim.below is not None:
            return [self.beyond(line, claim.below, -1) for line in named]
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

    def before(self, better: LineFindings, worse: LineFindings) -> Comparison:
        found = self.paired(lambda a, b: a - b, better, worse)
        compared = Comparison(
            f"{better.label} − {worse.label}{' in log perplexity' if self.log else ''}",
            found,
            self.sign * found.sign if found else 0,
            contrary=f"{worse.label} {_ahead(self.claim)} {better.label}",
            level=f"{better.label} level with {worse.label}",
            word="level",
            because=self.too_brief(better, worse),
            favour=self.sign * found.mean if found else 0.0,
        )
        return self.matched(self.seeing(compared, better, worse), better, worse)

    def beyond(self, line: LineFindings, bound: float, side: int) -> Comparison:
        """Whether a line is above a bound (`side` is 1) or below it (-1)."""
        found = self.paired(lambda a: side * (a - self.factor * bound), line)
        shown = _signed(self.factor * bound)
        least = f"({shown})" if bound < 0 else shown
        so = found.sign if found else 0
        compared = Comparison(
            f"{line.label} − {least}" if side > 0 else f"{shown} − {line.label}",
            found,
            # Who misses it may yet have come later; of who could not meet the rule nobody knows.
            0 if (side * so < 0 and self.misses(line)) or self.too_brief(line) else so,
            contrary=f"{line.label} {'below' if side > 0 else 'above'} {shown}",
            level=f"{line.label} level with {shown}",
            word="level",
            favour=found.mean if found else 0.0,
        )
        return self.matched(compared, line)

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
            level=f"{names} undecided",
            word="undecided",
            favour=favour,
        )
        return self.matched(self.seeing(compared, a, b), a, b)

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
            if (so > 0 and self.misses(line)) or (so < 0 and self.misses(than)) or self.too_brief(line, than):
                so = 0
        compared = Comparison(
            f"{line.label} saves",
            found,
            so,
            contrary=f"{line.label} saves less than that",
            level=f"{line.label} undecided",
            word="undecided",
            because=self.too_brief(line, than),
            favour=found.mean - 100 * share if found else 0.0,
        )
        return self.matched(compared, line, than)

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

    # Why -----------------------------------------------------------------------------------------

    def seeing(self, compared: Comparison, *lines: LineFindings) -> Comparison:
        """The same; blind where all of the lines guess, or have diverged, in every seed."""
        if all(map(self.guesses, lines)):
            return compared.blind()
        common = self.common(*lines)
        return compared.blind("both diverged") if common and self.both_lost(*lines) == common else compared

    def matched(self, compared: Comparison, *lines: LineFindings) -> Comparison:
        """The same; where no seed has a value of all of the lines, with that for a reason."""
        names, common = " and ".join(line.label for line in lines), self.common(*lines)
        if any(None not in self.row(lines, seed) for seed in common):
            return compared
        gone = f"{names}: {'not measured' if common else 'no seed in common'}"
        return replace(compared, level=gone, word="")

    def too_brief(self, *lines: LineFindings) -> str:
        """Who had too few reports for the rule, where that is why two are level."""
        found = [line.label for line in lines if any(self.could_not(line, seed) for seed in line.seeds)]
        return f"too few reports: {' and '.join(found)}" if found else ""

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
                word="level" if both else "",
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
        ours=claim.ours,
        by=_by(claim, panels[0]),
    )


def _signed(bound: float) -> str:
    return f"{bound:g}".replace("-", "−")


def _by(claim: Claim, panel: PanelFindings) -> str:
    """What was measured, in words."""
    return MEASURES[claim.measure].replace("accuracy", METRICS[panel.metric].name)


def _ahead(claim: Claim) -> str:
    """What a line is to another that it has the better value of."""
    if claim.measure in FOOTPRINTS:
        return "takes less than"
    return "before" if claim.measure in (*ARRIVALS, "speedup") else "better than"


def _bounds(found: Interval) -> tuple[float, float]:
    if found.low is None or found.high is None:
        return found.mean, found.mean
    return found.low, found.high


def _measured(claim: Claim, panel: PanelFindings) -> bool:
    """What nobody measured neither holds nor fails."""
    return all(claim.measure in line.measures for line in panel.lines if line.name in claim.names)
