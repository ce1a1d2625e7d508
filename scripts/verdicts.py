"""Write what the records show into the pages about them: ``python scripts/verdicts.py``.

Into ``docs/results/README.md`` a table per paper of what was run. Into ``docs/reproductions.md`` two of what
became of its claims, a row per claim and then a row per claim and place, between the comments that name them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "reproductions.md"
PAPERS = ("exact", "knot", "incentive")
INDEX = RESULTS / "README.md"
sys.path[:0] = [str(ROOT)]

from benchmarks import parts  # noqa: E402
from unknot import reproduce  # noqa: E402
from unknot.report.verdicts import glance_table, verdicts_table  # noqa: E402
from unknot.reproduce import checking  # noqa: E402


@cache
def shown(name: str) -> Mapping[str, Any]:
    """What the page of a reproduction shows."""
    plan = reproduce.load(name)
    return reproduce.findings(plan, "paper", reproduce.records_file(plan, "paper", RESULTS)).to_dict()


def tables() -> dict[str, str]:
    """The tables of each paper, by the name of its reproductions: at a glance, and with the figures."""
    names = [name for name in reproduce.names() if (RESULTS / f"{name}-paper.md").exists()]
    tables = {}
    for paper in PAPERS:
        of = [(shown(name), f"results/{name}-paper.md") for name in names if name.startswith(f"{paper}-")]
        tables |= {f"{paper}_glance": glance_table(of), paper: verdicts_table(of)}
    return tables


def indexes() -> dict[str, str]:
    """What was run for each page of a paper, with how many seeds, and what was not."""
    found = {paper: ["| page | of the paper | run |", "|---|---|---|"] for paper in PAPERS}
    for asked in checking.pages(RESULTS):
        name = asked.plan.name
        link = f"[{name}]({asked.stem}.md)"
        found[name.partition("-")[0]].append(f"| {link} | {shown(name)['figure']} | {_run(asked)} |")
    return {paper: "\n".join(rows) for paper, rows in found.items()}


def _run(asked: checking.Asked) -> str:
    lacks = checking.check(asked)
    panels = shown(asked.plan.name)["panels"]
    if shown(asked.plan.name)["axis"] == "game":
        return f"{lacks.runs} draws"
    by_seeds: dict[int, list[str]] = {}
    for panel in panels:
        seeds = max((len(line["seeds"]) for line in panel["lines"]), default=0)
        by_seeds.setdefault(seeds, []).append(panel["title"])
    told = [
        f"{'one seed' if seeds == 1 else f'{seeds} seeds'}: {' · '.join(titles)}"
        for seeds, titles in sorted(by_seeds.items(), reverse=True)
        if seeds
    ]
    told += [f"missing: {one}" for one in lacks.missing]
    told += [f"of an earlier configuration: {' · '.join(lacks.earlier)}"] if lacks.earlier else []
    told += [f"not run: {' · '.join(lacks.not_run)}"] if lacks.not_run else []
    return "; ".join(told)


if __name__ == "__main__":
    parts.write(INDEX, **indexes())
    parts.write(PAGE, **tables())
