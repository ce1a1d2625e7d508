"""The reproductions there are, each below the paper that it is of."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from unknot.report.cells import Shown
from unknot.report.comparison import GAP

NONE = "Of no paper"
HINT = "--long says which data each needs, whether that is here, and how long it takes."


def by_paper(entries: Sequence[Shown], long: bool = False) -> RenderableType:
    """A line each; with `long`, also whether each can be run here."""
    papers: dict[str, list[Shown]] = {}
    for entry in sorted(entries, key=lambda entry: not entry["paper"]):
        papers.setdefault(entry["paper"] or NONE, []).append(entry)
    if not long:
        return Group(_Lines(papers), Text(HINT, style="dim"))
    parts: list[RenderableType] = []
    for paper, mine in papers.items():
        parts += [Text(""), _heading(paper), _table(mine)]
    return Group(*parts[1:])


def _heading(paper: str) -> Text:
    return Text(paper, style="bold cyan")


class _Lines:
    """A line an entry, with columns as wide throughout; a title that has no room ends after a word."""

    def __init__(self, papers: Mapping[str, Sequence[Shown]]) -> None:
        self.papers = papers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        entries = [entry for mine in self.papers.values() for entry in mine]
        name, figure = (max(len(entry[key]) for entry in entries) for key in ("name", "figure"))
        room = max(4, options.max_width - name - figure - 2 * GAP)
        more = " ..." if options.ascii_only else " …"
        for paper, mine in self.papers.items():
            yield _heading(paper)
            for entry in mine:
                title = textwrap.shorten(entry["title"], room, placeholder=more)
                lead = (entry["name"].ljust(name + GAP), "bold"), entry["figure"].ljust(figure + GAP)
                yield Text.assemble(*lead, title, no_wrap=True, overflow="crop")
            yield Text("")


def _table(entries: Sequence[Shown]) -> RenderableType:
    """At each scale whether they can be run here."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=max(len(entry["name"]) for entry in entries))
    for entry in entries:
        table.add_row(Text(entry["name"], style="bold"), Text(f"{entry['figure']}: {entry['title']}"))
        for scale in entry["scales"]:
            data = [
                (name, "green") if here else (f"{name} (not here)", "red")
                for name, here in scale["data"].items()
            ]
            told = Text(", ").join(Text(*item) for item in data) if data else Text("no data", style="dim")
            table.add_row(Text(f"  {scale['name']}"), Text.assemble(told, f"; {scale['takes']}"))
    return table
