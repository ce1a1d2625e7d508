"""What came out of the games of a reproduction: curves over the draws, and whether the claims held."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unknot.experiments.seeds import Stat
from unknot.incentive import beside, settling
from unknot.incentive.game import Floats
from unknot.reproduce.curves import Curve
from unknot.reproduce.games import GameClaim, GameReproduction, Sweep
from unknot.reproduce.intervals import share
from unknot.reproduce.page import Made, Page, foot, head
from unknot.reproduce.played import GameRecord, found_draws
from unknot.reproduce.verdicts import Verdict, outcome_of

BAND = (25, 75)  # per cent of the draws, between which the band of a curve lies
SHOWN = (1, 50, 100)  # periods that a table shows, and the last
MOST = 10  # columns of a table; what goes along more is shown in these periods


@dataclass(frozen=True)
class GameLine:
    """One policy in one panel. `curve` has the mean over the draws, and the middle half of them."""

    name: str
    label: str
    draws: int
    curve: Curve
    cells: tuple[Stat | None, ...]
    """At the panel's places that a table shows."""
    mean: Stat | None
    """Over all of the panel's places."""
    settled: float | None
    """Over periods: the median period from which the total stays within 1 % of its last."""
    falls: int
    """Draws in which it falls all along the panel."""
    rises: int
    beside: tuple[int, int, int] | None
    """Draws in which the game is, at the end of the panel, above this policy, level with it, below it."""
    note: str


@dataclass(frozen=True)
class GamePanel:
    """A panel: its lines, or why there are none."""

    name: str
    title: str
    over: str
    places: tuple[float, ...]
    """Those that a table shows."""
    lines: tuple[GameLine, ...]
    reason: str | None
    note: str


@dataclass(frozen=True)
class GameFindings(Page):
    """Everything that a report of such a reproduction shows; the verdicts' `seeds` are draws."""

    panels: tuple[GamePanel, ...]
    axis: str = "game"


Values = Mapping[str, Floats]
"""By line: [draw, place]."""


def game_findings(
    plan: GameReproduction,
    scale: str,
    file: Path,
    draws: Iterable[int] | None = None,
    overrides: Sequence[str] = (),
) -> GameFindings:
    """From the records of a file; `overrides` are those that `plan` has been changed by."""
    found = found_draws(plan, file, plan.draws_at(scale, draws))
    return GameFindings(
        **head(plan, scale, overrides),
        panels=tuple(_panel(plan, panel, _values(plan, panel, found)) for panel in plan.panels),
        verdicts=tuple(_verdicts(plan, found)),
        **foot([Made("", f"draw {draw}", record) for draw, record in found.items()], _words),
    )


def _words(machine: Mapping[str, Any]) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores, numpy {machine['numpy']}"


def _values(plan: GameReproduction, panel: Sweep, found: Mapping[int, GameRecord]) -> Values:
    """The curves as they were before one that never changes was kept as a single number."""
    places = len(plan.places(panel))
    rows: dict[str, list[Floats]] = {}
    for record in found.values():
        for name, kept in record.values[panel.name].items():
            rows.setdefault(name, []).append(np.broadcast_to(np.asarray(kept, float), places))
    return {name: np.stack(values) for name, values in rows.items()}


def _panel(plan: GameReproduction, panel: Sweep, values: Values) -> GamePanel:
    places = plan.places(panel)
    shown = list(range(len(places)))
    if len(places) > MOST:
        shown = sorted({places.index(t) for t in SHOWN if t in places} | {len(places) - 1})
    policies = {line.name: line for line in plan.lines}
    lines = []
    for name, curves in values.items():
        low, high = np.percentile(curves, BAND, axis=0)
        steps = np.diff(curves, axis=1)
        rival = name != "evolutionary" and "evolutionary" in values
        lines.append(
            GameLine(
                name=name,
                label=policies[name].label,
                draws=len(curves),
                curve=Curve(places, *(tuple(row.tolist()) for row in (curves.mean(0), low, high))),
                cells=tuple(Stat.of(curves[:, i].tolist()) for i in shown),
                mean=Stat.of(curves.mean(1).tolist()),
                settled=_median_settling(curves) if panel.over == "periods" else None,
                falls=int((steps < 0).all(1).sum()),
                rises=int((steps > 0).all(1).sum()),
                beside=beside(values["evolutionary"][:, -1], curves[:, -1]) if rival else None,
                note=policies[name].note,
            )
        )
    reason = None if lines else "not run yet"
    return GamePanel(
        panel.name, panel.title, panel.over, tuple(places[i] for i in shown), tuple(lines), reason, panel.note
    )


def _median_settling(curves: Floats) -> float:
    return float(statistics.median(settling(curve) for curve in curves))


# Claims -----------------------------------------------------------------------------------------


def _verdicts(plan: GameReproduction, found: Mapping[int, GameRecord]) -> list[Verdict]:
    """A verdict a claim and line (or group of lines), by the share of draws in which it is so.

    It holds where that is more than half by its 95 % interval, and does not where it is less.
    """
    if not found:
        return []
    panels = {panel.name: _values(plan, panel, found) for panel in plan.panels}
    labels = {line.name: line.label for line in plan.lines}
    verdicts = []
    for claim in plan.claims:
        values = panels[claim.panel]
        for where, holds, detail in _answers(claim, values, labels, [r.stable for r in found.values()]):
            count, draws = sum(holds), len(holds)
            low, high = share(count, draws)
            outcome = outcome_of([(low > 0.5) - (high < 0.5)])
            why = f"in {count} of {draws} draws"
            verdicts.append(Verdict(claim.says, claim.panel, where, outcome, why, draws, detail))
    return verdicts


Answer = tuple[str, Sequence[bool], str]
"""About what, whether it is so in each draw, and the figures."""


def _answers(
    claim: GameClaim, values: Values, labels: Mapping[str, str], stable: Sequence[int]
) -> list[Answer]:
    if claim.best is not None:
        return [_best(values, claim.best, group, labels) for group in claim.than]
    if claim.settle is not None:
        return [_settled(values[name], claim.settle, labels[name]) for name in claim.lines]
    if claim.unique:
        return [_unique(stable, labels[name]) for name in claim.lines]
    return [_trend(values[name], str(claim.trend), labels[name]) for name in claim.lines]


def _best(values: Values, best: str, group: Sequence[str], labels: Mapping[str, str]) -> Answer:
    mine = values[best][:, -1]
    other = np.max([values[name][:, -1] for name in group], axis=0)
    above, level, below = beside(mine, other)
    holds = [beside([a], [b])[0] == 1 for a, b in zip(mine.tolist(), other.tolist(), strict=True)]
    where = labels[group[0]] if len(group) == 1 else f"the best of {', '.join(labels[n] for n in group)}"
    counts = f"above in {above}, level in {level}, below in {below}"
    return f"against {where}", holds, f"{_number(mine.mean())} against {_number(other.mean())}; {counts}"


def _settled(curves: Floats, period: int, label: str) -> Answer:
    when = [settling(curve) for curve in curves]
    middle, last = statistics.median(when), curves.shape[1]
    told = "at once" if middle == 1 else f"not by {last}" if middle >= last else f"median period {middle:g}"
    return label, [one <= period for one in when], told


def _trend(curves: Floats, trend: str, label: str) -> Answer:
    steps = np.diff(curves, axis=1)
    falls, rises = ([bool((sign * row > 0).all()) for row in steps] for sign in (-1, 1))
    digits = 1 if np.abs(curves.mean(0)).max() >= 100 else 2
    means = [_number(value, digits) for value in curves.mean(0)]
    figures = f"{', '.join(means)}; falls throughout in {sum(falls)}, rises throughout in {sum(rises)}"
    if not steps.any():
        figures = f"{means[0]}, the same all along in every draw"
    return label, falls if trend == "falls" else rises, figures


def _unique(stable: Sequence[int], label: str) -> Answer:
    """It takes just one stable equilibrium; that does not prove it, as others may lie between.

    For the same reason a count is of those at least.
    """
    least, most = min(stable), max(stable)
    number = f"{least}" if least == most else f"{least} to {most}"
    figures = f"at least {number} stable equilibri{'um' if most == 1 else 'a'} in each draw, all or nothing"
    if not most:
        figures = "no stable all-or-nothing equilibrium in any draw"
    elif not least:
        figures += f"; none in {list(stable).count(0)}"
    return label, [count == 1 for count in stable], figures


def _number(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
