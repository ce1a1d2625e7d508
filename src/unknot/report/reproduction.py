"""What a reproduction found, and what became of requests: tables for the terminal, a page of Markdown.

Findings come as plain values (what ``Findings.to_dict()`` gives), so that this room need not know
the one that made them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unknot.core.errors import ConfigError
from unknot.report import exposure, times, utilities
from unknot.report.cells import (
    NONE,
    REAL,
    Rows,
    Shown,
    count,
    markdown_table,
    not_run,
    published_head,
    quality,
    shown,
    target,
)
from unknot.report.compared import Column, Part, short
from unknot.report.comparison import GAP, LONGEST, column_width, packed
from unknot.report.pictures import digest, drawn_from
from unknot.report.verdicts import rule, told, verdict, verdict_rows

COSTS = {
    "client_epochs": "client epochs",
    "seconds": "simulated time",
    "bytes_sent": "sent",
    "bytes_stored": "stored",
}
SUBTITLE = "Rounds to an accuracy, and accuracies in %: mean ± standard deviation over n seeds."
MADE = "Mean ± sample standard deviation over n seeds; accuracies in per cent. "
ROUNDS = (
    "*To 75 %*: rounds until the served model first reached it after the request (*paper*: the paper's). "
)
COLUMNS = (
    "*Round 0*: the model right after the request. *Next 20*: mean accuracy over the following 20 rounds, or "
    "as many as there are before the next request. *End*: the last accuracy before the next request. "
    "Costs are a round's, over the whole run, as multiples of plain FedAvg's (RFS before its first request; "
    "the fewer clients remain, the less a round costs). "
)
MODELS = "*Models*: how many are aggregated when the client leaves. "

SUBTITLES = {"rounds": SUBTITLE, "time": times.SUBTITLE, "game": utilities.SUBTITLE}
COLOURS = {"holds": "green", "does not hold": "red"}
LEADS = ("request", "model")
"""Columns that say of what a row is, beside the first."""
WORDS = ("guarantee", "outcome")
NARROW = len("(2 of 3 seeds)")
"""Letters of a number, or of words in its place, in a line."""


def _earlier(panel: Shown) -> str:
    if not panel.get("earlier"):  # games are played again in seconds
        return ""
    return f"**These runs are of an earlier configuration**, and wait to be run again: {panel['earlier']}."


def _not_judged(findings: Shown) -> list[str]:
    """Claims of which what they are about was not measured in these runs."""
    return [
        f"Not judged, since these runs did not measure it: {says}." for says in findings.get("not_judged", ())
    ]


def _remarks(panel: Shown, findings: Shown) -> list[str]:
    return times.remarks(panel) if findings["axis"] == "time" else []


# Tables, as rows of texts ------------------------------------------------------------------------


def requests_rows(panel: Shown, counted: bool = False) -> tuple[list[str], Rows]:
    """A row for every line and request of a panel, the published figure beside ours."""
    thresholds = [target(threshold, panel["metric"]) for threshold in panel["thresholds"]]
    published = [published_head("paper", panel)] if panel["published"] else []
    ids = ["models"] if counted else []
    accuracies = {"before": "before", "first": "round 0", "recovering": "next 20", "end": "end"}
    header = ["", "request", *published, *thresholds, *accuracies.values(), *ids, "n"]
    rows: Rows = []
    for line in panel["lines"]:
        first_leave = next((i for i, a in enumerate(line["after"]) if a["kind"] == "erase"), None)
        for i, after in enumerate(line["after"]):
            told = panel["published"].get(line["name"], NONE) if i == first_leave else ""
            rows.append(
                [
                    line["label"] if i == 0 else "",
                    f"{after['request']} ({after['round']})",
                    *[told for _ in published],
                    *(count(stat) for stat in after["rounds"]),
                    *(quality(after[name], panel["metric"]) for name in accuracies),
                    *[_models(line) if i == 0 else "" for _ in ids],
                    str(len(line["seeds"])) if i == 0 else "",
                ]
            )
    return header, [*rows, *not_run(panel, len(header))]


def _models(line: Shown) -> str:
    stat = line["measures"].get("ids")
    return NONE if stat is None else count(stat, 2)


def costs_rows(panel: Shown) -> tuple[list[str], Rows]:
    """What each line costs a round, as multiples of plain FedAvg."""
    header = ["", "guarantee", *COSTS.values(), "real seconds"]
    rows = [
        [
            line["label"],
            line["guarantee"],
            *(NONE if line["costs"] is None else f"{line['costs'][name]:.2f} ×" for name in COSTS),
            NONE if line["seconds"] is None else count(line["seconds"]),
        ]
        for line in panel["lines"]
    ]
    return header, rows


def panel_tables(panel: Shown, findings: Shown) -> list[tuple[list[str], Rows]]:
    """The tables of a panel: by rounds, by simulated time, or of games."""
    if findings["axis"] == "game":
        return utilities.tables(panel)
    over_time = findings["axis"] == "time"
    found = times.tables(panel, findings["baseline"]) if over_time else []
    if not over_time and (panel["lines"] or panel["published"]):
        found.append(requests_rows(panel, findings["counted"]))
    if panel["lines"]:
        if over_time:
            found.append(times.quality_rows(panel))
        if exposure.exposed(panel):
            found.append(exposure.exposure_rows(panel))
        found.append(times.costs_rows(panel) if over_time else costs_rows(panel))
    return found


# For the terminal --------------------------------------------------------------------------------


def tables(findings: Shown) -> RenderableType:
    """Everything but the curves."""
    parts: list[RenderableType] = [
        Text(f"{findings['title']} ({findings['figure']}), {findings['scale']} scale", style="bold"),
        Text(findings["claim"]),
        Text(SUBTITLES[findings["axis"]], "dim"),
    ]
    for panel in findings["panels"]:
        parts += [Text(""), Text(panel["title"], style="bold cyan")]
        parts += [Text(text, style="yellow") for text in (panel["reason"], _earlier(panel)) if text]
        parts += [Text(text, style="yellow") for text in _remarks(panel, findings)]
        parts += [_Fitting(*_briefly(*table)) for table in panel_tables(panel, findings)]
    parts.append(Text(""))
    parts += [Text.assemble((f"* {who}: ", "bold"), text) for text, who in _guarantees(findings).items()]
    for item in findings["verdicts"]:
        colour = COLOURS.get(item["outcome"], "yellow")
        text = f"[{colour}]{escape(verdict(item))}[/] | {escape(told(item))} [dim]({escape(item['panel'])}: "
        parts.append(Text.from_markup(f"{text}{escape(item['detail'])})[/]"))
    parts += [Text(text, style="yellow") for text in _not_judged(findings)]
    return Padding(Group(*parts), (1, 0))


def scenario_table(scenario: Shown) -> Table:
    """What became of the requests of one run."""
    outcomes = scenario["outcomes"]
    metric = scenario["metric"]
    title = f"after each request, {scenario['split']} {metric}"
    table = Table("request", "before", "round 0", title=title, title_justify="left")
    for reached in outcomes[0]["reached"] if outcomes else ():
        table.add_column(f"to {shown(reached['threshold'], metric)}")
    for outcome in outcomes:
        cells = [
            "not reached"
            if reached["rounds"] is None
            else f"{reached['rounds']} rounds, {reached['seconds']:.1f} s, "
            f"{reached['client_epochs']:.0f} client epochs"
            for reached in outcome["reached"]
        ]
        what = f"{outcome['request']}, round {outcome['round']}"
        table.add_row(what, shown(outcome["before"], metric), shown(outcome["after"], metric), *cells)
    return table


class _Fitting:
    """A table no wider than the screen: what has no room stands in further ones, and no number breaks."""

    def __init__(self, header: Sequence[str], rows: Rows) -> None:
        columns = [_column(i, name, [row[i] for row in rows]) for i, name in enumerate(header)]
        lead = 2 if header[1] in LEADS else 1
        self.lead, self.figures = columns[:lead], columns[lead:]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, options.max_width + GAP - sum(map(column_width, self.lead)))
        whole = [Part("", tuple(self.figures))]
        least = len(list(packed(whole, room)))
        # As many in each as may be: the last one is not to have a single column.
        even = next(some for some in range(1, room + 1) if len(list(packed(whole, some))) <= least)
        for (part,) in packed(whole, even):
            yield Text("")
            yield _table([*self.lead, *part.columns])


def _column(index: int, name: str, cells: Sequence[str]) -> Column:
    """Numbers stay whole, and what is said of them is below them; words have a width of their own."""
    left = index == 0 or name in LEADS or name in WORDS
    room = LONGEST if left else NARROW
    found = tuple(_wrapped(cell.replace(" ± ", "±"), room, numbers=not left) for cell in cells)
    widest = max((len(line) for cell in found for line in cell.split("\n")), default=1)
    return Column(_wrapped(name, max(widest, *map(len, name.split() or [""]))), found, left=left)


def _wrapped(text: str, room: int, *, numbers: bool = False) -> str:
    parts = text.replace(" (", "\n(").split("\n") if numbers and len(text) > room else [text]
    return "\n".join(line for part in parts for line in textwrap.wrap(part, room, break_long_words=False))


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        justify: JustifyMethod = "left" if column.left else "right"
        table.add_column(column.head, no_wrap=True, justify=justify)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(escape, row))
    return table


def _briefly(header: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """A table with guarantees in a word; where it does not say all, a note below the tables does."""
    if "guarantee" not in header:
        return header, rows
    place = header.index("guarantee")
    return header, [[*row[:place], short(row[place]), *row[place + 1 :]] for row in rows]


def _guarantees(findings: Shown) -> dict[str, str]:
    """Guarantees of which a word does not say all, each once: whose they are."""
    found: dict[str, dict[str, None]] = {}
    for line in (line for panel in findings["panels"] for line in panel["lines"]):
        text = line.get("guarantee")
        if text and short(text) != text:
            found.setdefault(text, {})[line["label"]] = None
    return {text: "; ".join(labels) for text, labels in found.items()}


# Markdown ----------------------------------------------------------------------------------------


def markdown(findings: Shown, command: str, figure: str | None) -> str:
    """A page: the figure, what the paper says and whether it held, the tables, how it was made."""
    paper = f" of *{findings['paper']}*" if findings["paper"] else ""
    lines = [
        f"# {findings['title']}",
        "",
        f"{findings['figure']}{paper}, at {findings['scale']} scale. {findings['claim']}",
        "",
    ]
    if figure:
        along = "simulated time" if findings["axis"] == "time" else "the rounds"
        what = f"accuracy over {along}" if findings.get("curves") else findings["title"]
        lines += [f"![{what}]({figure})", ""]
    if findings["verdicts"]:
        lines += ["## Did it hold?", ""]
        lines += markdown_table(*verdict_rows(findings["verdicts"]))
    lines += [f"{text}\n" for text in _not_judged(findings)]
    for panel in findings["panels"]:
        lines += [f"## {panel['title']}", ""]
        lines += [text + "\n" for text in (panel["note"], panel["reason"], _earlier(panel)) if text]
        lines += [f"{line['label']}: {line['note']}\n" for line in panel["lines"] if line["note"]]
        lines += [f"{text}\n" for text in _remarks(panel, findings)]
        for table in panel_tables(panel, findings):
            lines += markdown_table(*table)
    return "\n".join([*lines, *_made(findings, command)])


def write(
    findings: Shown, out: str | Path, command: str, kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """The page and, where matplotlib is installed, the figure; the files that were written."""
    from unknot.report import game_plots, plots

    draw = game_plots.draw if findings["axis"] == "game" else plots.draw
    page, *pictures = (_beside(findings, out, kind) for kind in ("md", *kinds))
    page.parent.mkdir(parents=True, exist_ok=True)
    try:
        drawn = draw(findings, *pictures)
    except ConfigError:
        drawn = False
    page.write_text(markdown(findings, command, pictures[0].name if drawn else None))
    return [page, *pictures] if drawn else [page]


def differs(findings: Shown, out: str | Path, command: str) -> list[str]:
    """What of a page is not what the findings give: its text, its figure, or that they are not there."""
    page, picture = (_beside(findings, out, kind) for kind in ("md", "png"))
    drawn = any(panel["lines"] for panel in findings["panels"])
    # Without matplotlib there is no figure, and the page does without.
    figure = picture.name if picture.exists() and drawn else None
    text = page.read_text() if page.exists() else None
    found = ["page"] if text != markdown(findings, command, figure) else []
    if drawn and drawn_from(picture) != digest(findings):
        found.append("figure")
    return found


def absent(findings: Shown, out: str | Path) -> list[str]:
    """What of a page is not there at all."""
    files = {"page": "md", "figure": "png"}
    return [what for what, kind in files.items() if not _beside(findings, out, kind).exists()]


def _beside(findings: Shown, out: str | Path, kind: str) -> Path:
    return Path(out) / f"{findings['name']}-{findings['scale']}.{kind}"


def _made(findings: Shown, command: str) -> list[str]:
    rounds = ROUNDS if any(panel.get("thresholds") for panel in findings["panels"]) else ""
    models = MODELS if findings.get("counted") else ""
    texts = [f"{MADE}{rounds}{COLUMNS}{models}{REAL}"]
    if findings["axis"] == "game":
        texts = [utilities.MADE]
    elif findings["axis"] == "time":
        texts = [times.made(findings)]
    if findings["axis"] != "game" and any(exposure.exposed(panel) for panel in findings["panels"]):
        texts.append(exposure.MADE)
    if findings["verdicts"] and findings["axis"] != "game":
        texts.append(rule(findings["verdicts"]))
    return [
        "## How it was made",
        "",
        *(line for text in texts for line in (*textwrap.wrap(text, 100), "")),
        "```console",
        f"$ {command}",
        "```",
        "",
        *(f"- commit {commit}" for commit in findings["commits"]),
        *(f"- {doubt}" for doubt in findings["doubts"]),
        *(f"- {machine}" for machine in findings["machines"]),
        "",
    ]
