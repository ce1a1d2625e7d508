"""The figures of a claim's lines in one panel, as they are told beside its verdict."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from unknot.reproduce.claim_values import DIVERGED, Values
from unknot.reproduce.measures import LineFindings
from unknot.reproduce.parts import ARRIVALS, EXPOSURES, FOOTPRINTS, LOSSES, WHOLE

HUGE = 1e6
"""Perplexities whose digits say nothing."""


def figures_of(values: Values) -> str:
    """Ours, in the claim's order: ``MMT 3.0, BMT 5.0``."""
    return _of_lines(values, lambda line: _show(values, line))


def published_of(values: Values) -> str:
    """The paper's figures of this measure, and of what they are where that is not what was run."""
    if values.claim.published:
        return values.claim.published
    if values.claim.measure not in values.panel.published_by:
        return ""
    found = _of_lines(values, lambda line: values.panel.published.get(line.name))
    of = values.panel.published_for
    return f"{found} ({of})" if found and of else found


def _of_lines(values: Values, of: Callable[[LineFindings], str | None]) -> str:
    """``MMT 3, BMT 5``: of the claim's lines, in its order."""
    claim = values.claim
    order = (claim.than, *itertools.chain(*claim.order), *claim.lines)
    named = [values.lines[name] for name in dict.fromkeys(order) if name in values.lines]
    return ", ".join(f"{line.label} {text}" for line in named if (text := of(line)) is not None)


def _show(values: Values, line: LineFindings) -> str:
    measure, stat = values.claim.measure, line.measures.get(values.claim.measure)
    if measure in ARRIVALS:
        if stat is None:
            return _not_there(values, line)
        part = "" if stat.n == stat.asked else f" (in {stat.n} of {stat.asked} seeds)"
        return f"{stat.mean:.1f}{part}"
    if stat is None:
        return "–"
    if measure in ("ids", "speedup"):
        return f"{stat.mean:.2f}{' ×' if measure == 'speedup' else ''}"
    if measure == "f1_fall":
        return f"{'falls' if stat.mean >= 0 else 'rises'} by {abs(100 * stat.mean):.0f} %"
    if measure in (*EXPOSURES, *FOOTPRINTS):
        return f"{stat.mean:.2f}{_beside_first(values, line) if measure in FOOTPRINTS else ''}"
    if measure in ("rise", "join_rise"):
        return f"{values.factor * stat.mean:+.1f}".replace("-", "−")
    if values.perplexities and stat.mean >= HUGE:
        seeds = line.by_seed[measure].values()
        lost = sum(value is not None and value >= DIVERGED for value in seeds)
        return f"diverged in {lost} of {len(seeds)} seeds" if lost else f"{stat.mean:.0e}"
    # A loss in per cent would read as what is left.
    unit = "" if values.factor == 1 else " points" if measure in LOSSES else " %"
    return f"{values.factor * stat.mean:.1f}{unit}"


def _beside_first(values: Values, line: LineFindings) -> str:
    """`` (50 % more)``: than the line that an order names first; any more at all would be as it says."""
    first = values.lines[values.claim.order[0][0]] if values.claim.order else line
    if line is first:
        return ""
    more = line.measures[values.claim.measure].mean / first.measures[values.claim.measure].mean - 1
    return f" ({abs(100 * more):.0f} % {'more' if more >= 0 else 'less'})"


def _not_there(values: Values, line: LineFindings) -> str:
    """``not by 279 to 298 s``: how long a line was given that did not arrive; it might have, later."""
    measure = values.claim.measure
    ends = sorted(line.ends[measure].values())
    spans = " to ".join(dict.fromkeys(f"{end:.0f}" for end in (ends[0], ends[-1]))) if ends else "0"
    word = "by" if measure in WHOLE else "in"
    all_of = "for all leavers " if values.partly(line) else ""
    return f"not {all_of}{word} {spans} {'rounds' if measure == 'rounds' else 's'}"
