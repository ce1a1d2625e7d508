"""Write what the records show into the pages about them: ``python scripts/verdicts.py``.

Into ``docs/results/README.md`` a table a paper of what was run. Into ``docs/reproductions.md`` one of what
became of its claims, between the comments that name it; and every figure in the text that a comment
behind it gives a source: ``83.7<!--exact-table1 mnist mmt first-->`` is the mean of that
measure of that line in that panel of that page. Fields of what followed a request are named with its
number, ``after.0.before``; a single seed's as ``by_seed.end.0``. Published figures are those beside the
page's own, ``<!--paper knot-fig6a shakespeare knot-->``, or ``<!--paper-->`` where no page has them; settings
are a panel's target or its request's moment, ``<!--set knot-fig4 mnist target.0-->`` or ``request``, or the
bound of a page's claims, ``<!--set incentive-fig4d within-->``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "reproductions.md"
INDEX = RESULTS / "README.md"
sys.path[:0] = [str(ROOT)]

from benchmarks import parts  # noqa: E402
from unknot import reproduce  # noqa: E402
from unknot.report.verdicts import verdicts_table  # noqa: E402
from unknot.reproduce import checking  # noqa: E402

PAPERS = ("exact", "knot", "incentive")
FIGURE = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)<!--(?P<source>[^>]+)-->")
UNSOURCED = re.compile(r"(?<![\d.,])(\d+\.\d+|\d[\d,]*(?= (?:%|s|rounds|points)\b| %))(?!<!--|[\d.])")
"""Figures that say nothing of where they are from: with a decimal, or of something that is measured."""


@cache
def shown(name: str) -> Mapping[str, Any]:
    """What the page of a reproduction shows, from its records."""
    plan = reproduce.load(name)
    return reproduce.findings(plan, "paper", reproduce.records_file(plan, "paper", RESULTS)).to_dict()


def tables() -> dict[str, str]:
    """The table of each paper, by the name that its reproductions begin with."""
    names = [name for name in reproduce.names() if (RESULTS / f"{name}-paper.md").exists()]
    return {
        paper: verdicts_table(
            [(shown(name), f"results/{name}-paper.md") for name in names if name.startswith(f"{paper}-")]
        )
        for paper in PAPERS
    }


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


def figure(source: str) -> float:
    """The value that a comment names."""
    first, *rest = source.split()
    if first in ("set", "paper"):
        return (_setting if first == "set" else _published)(*rest)
    name, (panel, line, field) = first, rest
    found = _named(_named(shown(name)["panels"], panel)["lines"], line)
    choices = found.get("choices", {})  # games have neither
    value: Any = found.get("measures", {}).get(field) or choices.get(field)
    if value is None:
        value = found
        for step in field.split("."):
            value = value[int(step) if step.isdigit() else step]
    if isinstance(value, Mapping):
        value = value["mean"]
    percent = shown(name)["axis"] != "game" and _named(shown(name)["panels"], panel)["metric"] == "accuracy"
    quality = not {*field.split(".")}.isdisjoint(QUALITIES) or field in choices
    return float(value) * (100 if percent and quality else 1)


def _setting(name: str, *where: str) -> float:
    """A panel's target or the moment of its first request; within how many points claims call it the same."""
    if where == ("within",):
        bounds = {one for claim in shown(name)["verdicts"] for one in WITHIN.findall(claim["says"])}
        (bound,) = bounds
        return float(bound)
    panel, (kind, *place) = _named(shown(name)["panels"], where[0]), where[1].split(".")
    if kind == "request":
        (moment,) = {line["after"][0]["time"] for line in panel["lines"] if line["seeds"]}
        return float(moment)
    if kind != "target":
        raise LookupError(f"a setting is request, target.0 or within, not {kind}")
    return float(panel["thresholds"][int(*place)]) * (100 if panel["metric"] == "accuracy" else 1)


def _published(name: str, panel: str, line: str) -> float:
    """The number in what a page shows as published beside a line of its own."""
    (number,) = re.findall(r"\d[\d.]*", _named(shown(name)["panels"], panel)["published"][line])
    return float(number)


WITHIN = re.compile(r"within (\d+) points")
QUALITIES = ("first", "recovering", "end", "final", "before", "rise", "aggregated")


def _named(items: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    by_name = {item["name"]: item for item in items}
    if name not in by_name:
        raise LookupError(f"there is no {name} among {', '.join(by_name)}")
    return by_name[name]


def refreshed(text: str) -> str:
    """The text with every sourced figure as its record has it, to as many digits as it was written with."""

    def put(found: re.Match[str]) -> str:
        number, source = found["number"], found["source"].strip()
        if source == "paper":
            return found[0]
        digits = len(number.partition(".")[2])
        return f"{figure(source):,.{digits}f}<!--{found['source']}-->"

    return FIGURE.sub(put, text)


def unsourced(text: str) -> list[str]:
    """Figures in what was found that name no record, each with what stands around it."""
    found = []
    for section in re.findall(r"^### What we found$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL):
        prose = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", section, flags=re.DOTALL)
        plain = re.sub(r"\]\([^)]*\)", "]", prose)
        for match in UNSOURCED.finditer(plain):
            found.append(plain[max(0, match.start() - 40) : match.end() + 10].replace("\n", " "))
    return found


if __name__ == "__main__":
    parts.write(INDEX, **indexes())
    parts.write(PAGE, **tables())
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for text in unsourced(PAGE.read_text(encoding="utf-8")):
        sys.stdout.write(f"no source: {text}\n")
