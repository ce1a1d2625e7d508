"""Whether what a paper says held: computed from the measures, never written down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unknot.core.metrics import METRICS
from unknot.reproduce.measures import LineFindings, PanelFindings
from unknot.reproduce.parts import ARRIVALS, BETRAYALS, EXPOSURES, FOOTPRINTS, QUALITIES, Claim

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
        and (claim.measure not in (*ARRIVALS, "speedup") or panel.thresholds)
        and claim.than not in panel.without
        and (claim.measure not in (*EXPOSURES, *FOOTPRINTS) or _audited(claim, panel))
        and not (claim.lines and set(claim.lines) <= set(panel.without))
    ]
    if claim.gap:
        return [_verdict(claim, about, "across the panels")] if len(about) > 1 else []
    return [_verdict(claim, [panel], panel.title) for panel in about]


def _verdict(claim: Claim, panels: Sequence[PanelFindings], where: str) -> Verdict:
    lines = [{line.name: line for line in panel.lines if line.name in claim.names} for panel in panels]
    falls = _falls(claim, panels[0].metric)
    means = [{name: _score(_whole_mean(claim, line), falls) for name, line in p.items()} for p in lines]
    seeds = sorted(set.intersection(*(set(line.seeds) for part in lines for line in part.values())))
    agree = [
        _holds(
            claim,
            [{n: _score(line.by_seed[claim.measure][seed], falls) for n, line in p.items()} for p in lines],
        )
        for seed in seeds
    ]
    if claim.gap:
        detail = ", ".join(
            f"{p.title} {_factor(claim, p) * _gap(claim, m):+.1f}" for p, m in zip(panels, means, strict=True)
        )
    else:
        named = [n for n in (claim.than, *itertools.chain(*claim.order), *claim.lines) if n in lines[0]]
        shown = {name: f"{lines[0][name].label} {_show(claim, panels[0], lines[0][name])}" for name in named}
        detail = ", ".join(text + _saved(claim, means[0], name) for name, text in shown.items())
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
    if claim.alike is not None:
        return max(scores.values()) - min(scores.values()) <= claim.alike
    if claim.less is not None and claim.than is not None:
        named = [name for name in claim.lines if name in scores]
        # A hair is allowed: 45 of 100 is 55 % less, whatever the last digit of 1 - 0.45 is.
        return all(_saving(scores, name, claim.than) >= claim.less - 1e-9 for name in named)
    return all(
        # What never gets there is not better than anything, not even than what never does either.
        scores[better] >= scores[worse] and scores[better] > -math.inf
        for i, group in enumerate(claim.order)
        for better in group
        for worse in itertools.chain(*claim.order[i + 1 :])
        if better in scores and worse in scores
    )


def _audited(claim: Claim, panel: PanelFindings) -> bool:
    """What nobody measured neither holds nor fails."""
    return all(claim.measure in line.measures for line in panel.lines if line.name in claim.names)


def _gap(claim: Claim, scores: Scores) -> float:
    return scores[claim.gap[0]] - scores[claim.gap[1]]


def _saving(scores: Scores, name: str, than: str) -> float:
    """The share of what another takes that is saved. Who never arrives saves nothing from anybody."""
    mine, other = -scores[name], -scores[than]
    if math.isinf(mine):
        return -math.inf
    if math.isinf(other):
        return math.inf
    return 1 - mine / other if other else (0.0 if not mine else -math.inf)


def _saved(claim: Claim, scores: Scores, name: str) -> str:
    """`` (72 % less)``, of a line that a claim says takes less than another."""
    if claim.than in (None, name) or math.isinf(share := _saving(scores, name, str(claim.than))):
        return ""
    return f" ({abs(100 * share):.0f} % {'less' if share >= 0 else 'more'})"


def _falls(claim: Claim, metric: str) -> bool:
    """Whether less is better. What is above a bound is so whether that is good or not."""
    if claim.above is not None:
        return False
    less = (*ARRIVALS, *BETRAYALS, *FOOTPRINTS, "ids")
    return claim.measure in less or (METRICS[metric].falls and claim.measure in QUALITIES)


def _factor(claim: Claim, panel: PanelFindings) -> float:
    """Accuracies are shown in per cent, everything else as it is."""
    return 100.0 if claim.measure in QUALITIES and METRICS[panel.metric].share else 1.0


def _score(value: float | None, falls: bool) -> float:
    if value is None:
        return -math.inf
    return -value if falls else value


def _whole_mean(claim: Claim, line: LineFindings) -> float | None:
    """A threshold that some seed misses counts as missed; as reached where the claim is "never"."""
    stat = line.measures.get(claim.measure)
    return stat.mean if stat is not None and (claim.never or stat.n == stat.asked) else None


def _show(claim: Claim, panel: PanelFindings, line: LineFindings) -> str:
    stat = line.measures.get(claim.measure)
    if claim.measure in ARRIVALS:
        if stat is None:
            return "never"
        part = "" if stat.n == stat.asked else f" (in {stat.n} of {stat.asked} seeds)"
        return f"{stat.mean:.1f}{part}"
    if stat is None:
        return "–"
    if claim.measure in ("ids", "speedup"):
        return f"{stat.mean:.2f}{' ×' if claim.measure == 'speedup' else ''}"
    if claim.measure == "f1_fall":
        return f"{100 * stat.mean:.0f} %"
    if claim.measure in (*EXPOSURES, *FOOTPRINTS):
        return f"{stat.mean:.2f}"
    factor = _factor(claim, panel)
    if claim.measure == "rise":
        return f"{factor * stat.mean:+.1f}"
    return f"{factor * stat.mean:.1f}{' %' if factor > 1 else ''}"
