"""What came out of a reproduction: everything that a report of it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from unknot.reproduce import records
from unknot.reproduce.claims import judge
from unknot.reproduce.differences import difference
from unknot.reproduce.game_findings import GameFindings, game_findings
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.measures import PanelFindings, panel_findings
from unknot.reproduce.page import Made, Page, foot, head
from unknot.reproduce.parts import Claim, Panel
from unknot.reproduce.reproduction import Reproduction, Run
from unknot.reproduce.runner import needed, stores_of


@dataclass(frozen=True)
class Findings(Page):
    """Everything that a report of a reproduction shows."""

    axis: str
    baseline: str | None
    bars: tuple[str, ...]
    curves: bool
    counted: bool
    """Whether the number of models aggregated at a departure is of interest."""
    panels: tuple[PanelFindings, ...]
    not_judged: tuple[str, ...]
    """Claims whose lines were run, and of which what they are about was not measured."""


def findings(
    plan: Reproduction | GameReproduction,
    scale: str,
    file: Path,
    seeds: Iterable[int] | None = None,
    overrides: Sequence[str] = (),
) -> Findings | GameFindings:
    """From the records of a file, and of those that the plan uses.

    A panel has those that fit it today; one of which there are none has those of an earlier configuration,
    and says so.
    """
    if isinstance(plan, GameReproduction):
        return game_findings(plan.changed(overrides), scale, file, seeds, overrides)
    stores = stores_of(plan, scale, file)
    runs = plan.runs(scale, seeds, overrides)
    done = [(run, record) for run in runs if (record := records.find(run, stores)) is not None]
    current = {run.panel.name for run, _ in done}
    if not overrides:  # what somebody asks for has no earlier answer
        done += earlier([run for run in runs if run.panel.name not in current], stores)
    # Where leavers are drawn, a seed counts once all of its cases are there: a part would be biased.
    asked, there = (Counter(_place(run) for run in some) for some in (runs, [run for run, _ in done]))
    pairs = [(run, record) for run, record in done if asked[_place(run)] == there[_place(run)]]
    shown = [(p, [pair for pair in pairs if pair[0].panel is p]) for p in plan.panels_at(scale)]
    had = {name for run, _ in pairs for name in needed(run)}
    panels = tuple(
        panel_findings(
            plan,
            panel,
            mine,
            _lines_missing(panel, runs, mine) if mine else _not_yet(panel, runs, had),
            "" if panel.name in current else _how_earlier(mine),
        )
        for panel, mine in shown
        if mine or not panel.off
    )
    verdicts = [(claim, judge(claim, panels)) for claim in plan.claims]
    made = [Made(run.panel.title, run.line.label, record, run.seed) for run, record in pairs]
    return Findings(
        **head(plan, scale, overrides),
        axis=plan.axis,
        baseline=plan.baseline,
        bars=plan.bars,
        curves=plan.curves,
        counted=any(claim.measure == "ids" for claim in plan.claims),
        panels=panels,
        verdicts=tuple(verdict for _, judged in verdicts for verdict in judged),
        not_judged=tuple(claim.says for claim, judged in verdicts if not judged and _were_run(claim, panels)),
        **foot(made, _words),
    )


def _were_run(claim: Claim, panels: Iterable[PanelFindings]) -> bool:
    """Whether all lines of a claim were, in a panel that it is about."""
    return any(
        claim.names <= {line.name for line in panel.lines}
        for panel in panels
        if not claim.panels or panel.name in claim.panels
    )


def _place(run: Run) -> tuple[str, str, int]:
    return run.panel.name, run.line.name, run.seed


def earlier(runs: Sequence[Run], stores: Sequence[records.Store]) -> list[tuple[Run, records.Record]]:
    """What was recorded of these runs when they were configured otherwise.

    Panels that show the same runs today show the same earlier ones.
    """
    found = {run.key: record for run in runs if (record := records.find_earlier(run, stores)) is not None}
    alike = {records.same(run.table): found[run.key] for run in runs if run.key in found}
    pairs = ((run, found.get(run.key) or alike.get(records.same(run.table))) for run in runs)
    return [(run, record) for run, record in pairs if record is not None]


def _how_earlier(pairs: Sequence[tuple[Run, records.Record]]) -> str:
    """In which settings the records of a panel differ from those of today."""
    said = (difference(record.config, records.plain_json(run.table)) for run, record in pairs)
    return "; ".join(dict.fromkeys(part for text in said for part in text.split("; ")))


def _lines_missing(
    panel: Panel, runs: Sequence[Run], pairs: Sequence[tuple[Run, records.Record]]
) -> str | None:
    """Which lines a panel has none of; of one that has the line but not all seeds, a table says how many."""
    there = {run.line.name for run, _ in pairs}
    labels = {run.line.name: run.line.label for run in runs if run.panel is panel and not run.line.off}
    missing = [label for name, label in labels.items() if name not in there]
    return f"not run yet: {', '.join(missing)}" if missing else None


def _not_yet(panel: Panel, runs: Sequence[Run], had: Set[str]) -> str:
    """Why a panel has no lines: not whether its data is here, so that a page is the same on every machine.

    What runs of other panels `had` is not what it waits for.
    """
    needs = next((needed(run) for run in runs if run.panel is panel), [])
    lacks = " and ".join(name for name in needs if name not in had)
    return f"not run yet: it needs {lacks}" if lacks else "not run yet"


def _words(machine: Mapping[str, object]) -> str:
    chip = f"{machine.get('gpu')}, " if machine.get("gpu") else ""
    # Of runs side by side the path is that of all of them, and says nothing of one.
    alone = machine.get("together", 1) == 1
    path, beside = (f" ({machine.get('path')})", "") if alone else ("", ", runs side by side")
    return (
        f"{chip}{machine.get('cpu')}, {machine.get('cores')} cores, torch {machine.get('torch')}, "
        f"{machine.get('engine')} engine{path} on {machine.get('device')}{beside}"
    )
