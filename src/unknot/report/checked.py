"""Whether pages are what their records and today's configuration give: a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.report.cells import Shown

WELL = "as configured"
NAMED = 4  # of many, that are named


def state(item: Shown) -> str:
    """In few words."""
    parts = {
        "earlier": "of an earlier configuration",
        "stale": "stale records",
        "missing": "runs missing",
    }
    words = [text for name, text in parts.items() if item[name]]
    if not item["shown"]:
        words.append("no records")
    absent = [name for name in item["differs"] if name in item["absent"]]
    old = [name for name in item["differs"] if name not in item["absent"]]
    told = (
        {"not drawn": absent, "out of date": old} if not item["drawn"] else {"drawn again": item["differs"]}
    )
    words += [f"{' and '.join(names)} {what}" for what, names in told.items() if names]
    return ", ".join(words) or WELL


def well(item: Shown) -> bool:
    """Whether it is what today's configuration gives, as far as it was run."""
    lacks = item["stale"] or item["missing"] or item["earlier"] or not item["shown"]
    return not (lacks or (item["differs"] and not item["drawn"]))


def checked(items: Sequence[Shown]) -> RenderableType:
    """A line a page, and below it what there is to say of its records."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for item in items:
        said = Text(state(item), style="green" if well(item) else "red")
        said.append(
            f"  {item['runs']} of {item['shown']} runs" if item["earlier"] else f"  {item['runs']} runs",
            style="dim",
        )
        table.add_row(Text(f"{item['name']}-{item['scale']}", style="bold"), said)
        for line in _remarks(item):
            table.add_row("", Text(line))
    good = sum(map(well, items))
    return Group(
        table, Text(f"{good} of {len(items)} pages are {WELL}, as far as they were run", style="dim")
    )


def _remarks(item: Shown) -> Iterator[str]:
    for stale in item["stale"]:
        yield f"stale: {_some(stale['records'])}: {stale['why']}"
    for missing in item["missing"]:
        yield f"missing: {missing}"
    if item["earlier"]:
        yield f"of an earlier configuration: {', '.join(item['earlier'])}"
    for why, count in item["doubts"].items():
        yield f"{count} of {item['shown']} {why}"
    if item["asked"]:
        yield f"as its command asks, with {item['asked']}"
    if item["not_run"]:
        yield f"not run: {', '.join(item['not_run'])}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
