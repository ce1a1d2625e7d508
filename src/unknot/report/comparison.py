"""A comparison of methods on the screen: tables that fit its width."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from unknot.report.cells import Shown
from unknot.report.compared import Column, Part, guarantees, notes, parts, title, wrong

COLOURS = {"exact": "green", "approximate": "yellow", "none": "red", "never": "red", "at once": "green"}
LONGEST = 24
"""Of a method's name with its options; more of it goes into the next line."""
GAP = 2
"""Letters between a column and the next."""


class Tables:
    """All columns side by side where there is room for them, otherwise in as many tables as it takes."""

    def __init__(self, comparison: Shown) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for who, text in wrong(self.comparison):
            yield Text.assemble((f"{who}: ", "bold red"), (text, "red"))
        yield Text.assemble((self.comparison["experiment"], "bold"), f": {title(self.comparison)}")
        methods = Column("method", tuple(m["method"] for m in self.comparison["methods"]), left=True)
        for chosen in packed(parts(self.comparison), options.max_width - column_width(methods)):
            yield Text("")
            yield _table(methods, chosen)
        yield Text("")
        for who, text in guarantees(self.comparison):
            yield Text.assemble((f"* {who}: ", "bold"), text)
        for note in notes(self.comparison):
            yield Text(note, style="dim")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(40, options.max_width), options.max_width)


def text(comparison: Shown, width: int) -> str:
    """The tables as plain text, so many letters wide."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    console.print(Tables(comparison))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def packed(found: Sequence[Part], room: int) -> Iterator[list[Part]]:
    """Parts that fit side by side; one that is too wide alone is cut."""
    row: list[Part] = []
    left = room
    for part in (piece for whole in found for piece in _cut(whole, room)):
        if row and _total(part) > left:
            yield row
            row, left = [], room
        row.append(part)
        left -= _total(part)
    if row:
        yield row


def _cut(part: Part, room: int) -> Iterator[Part]:
    columns: list[Column] = []
    for column in part.columns:
        if columns and sum(map(column_width, columns)) + column_width(column) > room:
            yield Part(part.title, tuple(columns))
            columns = []
        columns.append(column)
    yield Part(part.title, tuple(columns))


def _total(part: Part) -> int:
    return sum(map(column_width, part.columns))


def column_width(column: Column) -> int:
    """With the space between it and the next; of a text in several lines, the longest."""
    longest = max(len(line) for text in (*column.cells, column.head) for line in text.split("\n"))
    return GAP + (min(longest, LONGEST) if column.left else longest)


def _table(methods: Column, chosen: Sequence[Part]) -> Table:
    table = Table(
        title="; ".join(part.title for part in chosen),
        title_justify="left",
        title_style="italic",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(methods.head, max_width=LONGEST, overflow="fold", style="bold")
    columns = [column for part in chosen for column in part.columns]
    for column in columns:
        table.add_column(column.head, justify="left" if column.left else "right", no_wrap=not column.left)
    for row, name in enumerate(methods.cells):
        table.add_row(Text(name), *(_cell(column, row) for column in columns))
    return table


def _cell(column: Column, row: int) -> Text:
    text = column.cells[row]
    style = COLOURS.get(text.rstrip("*"), "")
    return Text(text, style=f"bold {style}" if column.best == row else style)
