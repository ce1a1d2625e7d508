"""The reproductions there are, each below the paper that it is of."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from unknot.report.cells import Shown
from unknot.report.reproduction import catalogue_list, catalogue_table

NONE = "Of no paper"


def by_paper(entries: Sequence[Shown], long: bool = False) -> RenderableType:
    """A line each; with `long`, also whether each can be run here."""
    papers: dict[str, list[Shown]] = {}
    for entry in sorted(entries, key=lambda entry: not entry["paper"]):
        papers.setdefault(entry["paper"] or NONE, []).append(entry)
    if not long:
        return _Lines(papers)
    parts: list[RenderableType] = []
    for paper, mine in papers.items():
        parts += [Text(""), Text(paper, style="bold cyan"), catalogue_table(mine)]
    return Group(*parts[1:])


class _Lines:
    """A list of all, so that its columns are as wide throughout, with a heading before each paper's first."""

    def __init__(self, papers: dict[str, list[Shown]]) -> None:
        self.papers = papers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        entries = [entry for mine in self.papers.values() for entry in mine]
        lines = console.render_lines(catalogue_list(entries), options, pad=False)
        first = {mine[0]["name"]: paper for paper, mine in self.papers.items()}
        for place, line in enumerate(lines):
            name = entries[place]["name"] if place < len(entries) else None
            if place == len(entries) or (place and name in first):
                yield Text("")
            if name in first:
                yield Text(first[name], style="bold cyan")
            yield from line
            yield Segment.line()
