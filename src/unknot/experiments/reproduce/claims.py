"""Whether what a paper says held: computed from the measures, never written down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unknot.experiments.reproduce.measures import LineFindings, PanelFindings
from unknot.experiments.reproduce.plan import Claim

Scores = Mapping[str, float]
"""By line; the higher, the better."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper held in a panel: by the means, and in how many of the seeds."""

    says: str
    measure: str
    panel: str
    held: bool
    held_in: int
    seeds: int
    detail: str


def judge(claim: Claim, panels: Sequence[PanelFindings]) -> list[Verdict]:
    """A verdict a panel, for panels in which every line of the claim has been run."""
    about = [
        panel
        for panel in panels
        if (not claim.panels or panel.name in claim.panels)
        and claim.names - set(panel.without) <= {line.name for line in panel.lines}
        and (claim.measure != "rounds" or panel.thresholds)
    ]
    if claim.gap:
        return [_verdict(claim, about, "across the panels")] if len(about) > 1 else []
    return [_verdict(claim, [panel], panel.title) for panel in about]


def _verdict(claim: Claim, panels: Sequence[PanelFindings], where: str) -> Verdict:
    lines = [{line.name: line for line in panel.lines if line.name in claim.names} for panel in panels]
    means = [{name: _mean_score(claim, line) for name, line in part.items()} for part in lines]
    seeds = sorted(set.intersection(*(set(line.seeds) for part in lines for line in part.values())))
    agree = [
        _holds(
            claim,
            [{n: _score(claim, line.by_seed[claim.measure][seed]) for n, line in p.items()} for p in lines],
        )
        for seed in seeds
    ]
    if claim.gap:
        detail = ", ".join(
            f"{p.title} {100 * _gap(claim, m):+.1f}" for p, m in zip(panels, means, strict=True)
        )
    else:
        named = [n for n in (*itertools.chain(*claim.order), *claim.lines) if n in lines[0]]
        detail = ", ".join(f"{lines[0][name].label} {_show(claim, lines[0][name])}" for name in named)
    return Verdict(claim.says, claim.measure, where, _holds(claim, means), sum(agree), len(seeds), detail)


def _holds(claim: Claim, panels: Sequence[Scores]) -> bool:
    if claim.gap:
        gaps = [_gap(claim, scores) for scores in panels]
        return all(a >= b for a, b in itertools.pairwise(gaps))
    (scores,) = panels
    if claim.never:
        return all(score == -math.inf for score in scores.values())
    if claim.above is not None:
        return all(score > claim.above for score in scores.values())
    return all(
        # What never gets there is not better than anything, not even than what never does either.
        scores[better] >= scores[worse] and scores[better] > -math.inf
        for i, group in enumerate(claim.order)
        for better in group
        for worse in itertools.chain(*claim.order[i + 1 :])
        if better in scores and worse in scores
    )


def _gap(claim: Claim, scores: Scores) -> float:
    return scores[claim.gap[0]] - scores[claim.gap[1]]


def _score(claim: Claim, value: float | None) -> float:
    if value is None:
        return -math.inf
    return -value if claim.measure in ("rounds", "ids") else value


def _mean_score(claim: Claim, line: LineFindings) -> float:
    """A threshold that some seed misses counts as missed; as reached where the claim is "never"."""
    stat = line.measures.get(claim.measure)
    whole = stat is not None and (claim.never or stat.n == stat.asked)
    return _score(claim, stat.mean if stat is not None and whole else None)


def _show(claim: Claim, line: LineFindings) -> str:
    stat = line.measures.get(claim.measure)
    if claim.measure == "rounds":
        if stat is None:
            return "never"
        part = "" if stat.n == stat.asked else f" (in {stat.n} of {stat.asked} seeds)"
        return f"{stat.mean:.1f}{part}"
    if stat is None:
        return "–"
    if claim.measure == "rise":
        return f"{100 * stat.mean:+.1f}"
    return f"{stat.mean:.2f}" if claim.measure == "ids" else f"{100 * stat.mean:.1f} %"
