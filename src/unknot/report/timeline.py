"""One run as a picture: how good the model was, and who was at work, over simulated time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from unknot.core.errors import ConfigError
from unknot.federation import History
from unknot.report import activity
from unknot.report.activity import Bar, Gone, Part, Point, Row
from unknot.report.canvas import GREY, MARKS, load_matplotlib
from unknot.report.colours import COLOURS
from unknot.report.targets import check_picture

Name = TypeVar("Name")
BLACK, RED, PALE, SILVER = "#111111", "#C1121F", "#F6D5D8", "#AAAAAA"
LANES = (*(colour for colour in COLOURS if colour != "#000000"), "#332288")  # black is the served model's
CUT: Any = {"facecolor": "white", "edgecolor": RED, "hatch": "//////", "linewidth": 0.8}
SAMPLES: Any = {"color": RED, "markeredgecolor": "white", "markeredgewidth": 0.6, "markersize": 6}
DATES = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # the same run, the same file
WIDTH, CURVE, TALLEST = 8.0, 2.3, 6.4  # inches
NAMED = 40  # rows, and then the clients' ids no longer fit
LONG = 16  # letters of a client's name
DOTS = 150  # measured values, and then their dots would be a line again
THIN = 400  # rows, and then there is no room between them
MANY = 5000  # bars, and then an SVG of them would be megabytes


def draw_run(history: History, *files: str | Path) -> None:
    """Write the figure to files; the ending says how: .png, .svg, .pdf."""
    check(*files)
    if not history.rounds:
        raise ConfigError("there is nothing to draw: the run has no rounds")
    figure_of, style = load_matplotlib()
    sheet = Sheet(history)
    with style:
        heights = [CURVE, sheet.tall] if sheet.measured else [sheet.tall]
        figure = figure_of(figsize=(WIDTH, sum(heights) + 1.2), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        upper, lower = panels[0], panels[-1]
        upper.set_xlim(0, 1.02 * history.time or 1)
        if sheet.measured:
            _accuracies(upper, sheet)
        _timeline(lower, sheet)
        _names(lower, sheet)
        for served in (one for one in history.served if one.clients):
            kind = activity.sign(served)
            sign, _ = MARKS[kind]
            for axes in panels:
                dash = {"erase": "-", "samples": "--"}.get(kind, ":")
                axes.axvline(served.time, color=GREY, linewidth=0.8, linestyle=dash, zorder=0)
            edge = upper.get_xaxis_transform()  # x by time, y by height: on the upper edge
            upper.plot(served.time, 1, sign, color=GREY, markersize=6, transform=edge, clip_on=False)
        _legend(figure, sheet)
        figure.suptitle(sheet.title, fontsize=10.5)
        for file in map(Path, files):
            try:
                figure.savefig(file, dpi=200, metadata=DATES[file.suffix.lower()])
            except OSError as error:
                raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def check(*files: str | Path, made: str | Path | None = None) -> None:
    """Whether these files can be drawn: asked before a long run rather than after it.

    `made` is a folder that will be there by then.
    """
    for file in files:
        check_picture(file, made=made)
    load_matplotlib()


@dataclass(frozen=True)
class Sheet:
    """A run laid out: which rows there are, where they lie, what is in them."""

    history: History

    @cached_property
    def measured(self) -> bool:
        """Whether there is anything to show of how good the model was."""
        return any(math.isfinite(value) for _, value in activity.served_curve(self.history))

    @cached_property
    def dotted(self) -> bool:
        """Whether every measured value of what is served has its dot."""
        return len(activity.served_curve(self.history)) <= DOTS

    @cached_property
    def rows(self) -> list[Row]:
        return activity.rows(self.history)

    @property
    def few(self) -> bool:
        """Whether every row has its client's name on the left."""
        return len(self.rows) <= NAMED

    @cached_property
    def heights(self) -> list[float]:
        """Of each row, downwards, with a gap between lanes."""
        gap = max(0.6, 0.012 * len(self.rows))
        found: list[float] = []
        for i, row in enumerate(self.rows):
            found.append(found[-1] + 1 + gap * (row.lane != self.rows[i - 1].lane) if found else 0.0)
        return found

    @cached_property
    def lowest(self) -> float:
        return self.heights[-1] if self.heights else 0.0

    @cached_property
    def tall(self) -> float:
        """Inches of the timeline."""
        return min(max(0.17 * (self.lowest + 1), 1.2), TALLEST)

    @cached_property
    def spans(self) -> dict[str, tuple[float, float]]:
        """From where to where a lane's rows go."""
        found: dict[str, tuple[float, float]] = {}
        for row, height in zip(self.rows, self.heights, strict=True):
            found[row.lane] = (found.get(row.lane, (height,))[0], height)
        return found

    @cached_property
    def bars(self) -> list[Bar]:
        return activity.bars(self.history, self.rows)

    @cached_property
    def gone(self) -> list[Gone]:
        return activity.gone(self.history, self.rows)

    @cached_property
    def parts(self) -> list[Part]:
        return activity.parts(self.history, self.rows)

    @cached_property
    def erased(self) -> dict[int, str]:
        """By row, what is written beside it: no name again where it stands on the left."""
        return activity.erased(self.history, self.rows, named=not self.few)

    @cached_property
    def colours(self) -> dict[str, str]:
        names = activity.lanes(self.history)
        return {activity.NOWHERE: SILVER} | {name: LANES[i % len(LANES)] for i, name in enumerate(names)}

    @cached_property
    def called_clients(self) -> list[str]:
        """By row, the client's name, cut where it is long, or its id."""
        names = [activity.called(self.history, row.client) for row in self.rows]
        return [name if len(name) <= LONG else f"{name[: LONG - 1]}…" for name in names]

    @property
    def called(self) -> str:
        return f"{self.lane}s"

    @property
    def lane(self) -> str:
        names = activity.lanes(self.history)
        return "cluster" if all(name.startswith("cluster") for name in names) else "lane"

    @property
    def shades(self) -> list[str]:
        """Of the lanes that there are, a few: what stands for all of them in the legend."""
        return [self.colours[name] for name in activity.lanes(self.history)[:3]]

    @property
    def title(self) -> str:
        """What was trained on what, by whom, in how many lanes, for how long; what was kept of the erased."""
        many = len(activity.lanes(self.history))
        among = f" in {many} {self.called}" if many > 1 else ""
        clients = _count(len({row.client for row in self.rows}), "client")
        rounds = _count(len(self.history.rounds), "round")
        parts = filter(None, [activity.subject(self.history), f"{clients}{among}", rounds])
        said = f"{self.history.method}: {', '.join(parts)}"
        return "\n".join([said, *textwrap.wrap(self.history.let_pass, 110)])


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"


# The upper axes.


def _accuracies(axes: Any, sheet: Sheet) -> None:
    history = sheet.history
    edges, own, points = activity.band(history), activity.own_curves(history), activity.served_curve(history)
    if edges:
        times, low, high = zip(*edges, (history.time, *edges[-1][1:]), strict=True)
        edge = {"step": "post", "color": GREY, "alpha": 0.18, "lw": 0}
        axes.fill_between(times, _scaled(history, low), _scaled(history, high), **edge)
    if len(own) <= len(LANES):
        for name, curve in own.items():
            _steps(axes, curve, history, color=sheet.colours[name], linewidth=0.9, alpha=0.9)
    _steps(axes, points, history, color=BLACK, linewidth=1.8)
    if sheet.dotted:
        times, values = zip(*points, strict=True)
        dots: Any = {"color": BLACK, "markersize": 3.6, "linestyle": "none", "clip_on": False, "zorder": 4}
        axes.plot(times, _scaled(history, values), marker="o", **dots)
    split = "validation" if any("validation" in record.scores for record in history.rounds) else "test"
    axes.set_ylabel(f"{split} {history.metric.axis}")


def _steps(axes: Any, points: Sequence[Point], history: History, **look: Any) -> None:
    """A model stays as it is until it is measured again."""
    if points:
        times, values = zip(*points, (history.time, points[-1][1]), strict=True)
        axes.plot(times, _scaled(history, values), drawstyle="steps-post", solid_joinstyle="round", **look)


def _scaled(history: History, values: Iterable[float]) -> list[float]:
    """As the axis has them: shares in per cent."""
    return [100 * value if history.metric.share else value for value in values]


# The lower axes.


def _timeline(axes: Any, sheet: Sheet) -> None:
    history = sheet.history
    few = sheet.few
    fine = history.time / 250  # a white edge would swallow what is shorter
    _boxes(axes, sheet, sheet.gone, 1.0, facecolor=PALE, edgecolor=PALE, linewidth=0.5)
    groups: dict[tuple[str, str], list[Bar]] = {}
    for bar in sheet.bars:
        groups.setdefault((bar.kind, sheet.rows[bar.row].lane if bar.kind == "lane" else ""), []).append(bar)
    for (kind, lane), alike in groups.items():
        colour = {"apart": SILVER, "joint": BLACK, "visit": RED}.get(kind) or sheet.colours.get(lane)
        edges = [colour if bar.end - bar.start < fine else "white" for bar in alike]
        look = {"facecolor": colour, "edgecolor": edges, "linewidth": 0.4 if few else 0.15}
        if kind == "cut":
            look = {**CUT, "zorder": 3}
        _boxes(axes, sheet, alike, 0.78 if len(sheet.rows) <= THIN else 1.0, **look)
    if sheet.parts:
        places = [(part.time, sheet.heights[part.row]) for part in sheet.parts]
        axes.plot(*zip(*places, strict=True), MARKS["samples"][0], **SAMPLES, zorder=4)
    for time, name in activity.restarts(history):
        if name in sheet.spans:
            top, bottom = sheet.spans[name]
            axes.vlines(time, top - 0.6, bottom + 0.6, color=RED, linewidth=1.8)
    axes.set_ylim(sheet.lowest + 0.8, -0.8)
    axes.set_xlabel("simulated time (s)")
    axes.grid(axis="y", visible=False)


def _boxes(axes: Any, sheet: Sheet, items: Sequence[Bar | Gone], thick: float, **look: Any) -> None:
    """All of one look in one collection: thousands of bars are drawn in a moment."""
    from matplotlib.collections import PolyCollection

    corners = []
    for item in items:
        top, bottom = sheet.heights[item.row] - thick / 2, sheet.heights[item.row] + thick / 2
        corners.append([(item.start, top), (item.end, top), (item.end, bottom), (item.start, bottom)])
    axes.add_collection(PolyCollection(corners, rasterized=len(sheet.bars) > MANY, **look))


def _names(axes: Any, sheet: Sheet) -> None:
    """Lanes on the left, with their clients' names or ids where they fit; what was erased on the right."""
    line = 0.13 / sheet.tall * (sheet.lowest + 1.6)  # of text, in rows
    few = sheet.few
    if few:
        axes.set_yticks(sheet.heights, sheet.called_clients, minor=True)
        axes.yaxis.remove_overlapping_locs = False  # a lane's name takes no client's id away
    middles = {lane: (top + bottom) / 2 for lane, (top, bottom) in sheet.spans.items()}
    shown = apart(middles, line) if len(middles) > 1 else []  # one alone needs no name
    axes.set_yticks([middles[lane] for lane in shown], shown, fontsize=8.5, fontweight="bold")
    several = len(activity.lanes(sheet.history)) > 1
    axes.set_ylabel(f"clients, by {sheet.lane}" if several else "clients", labelpad=6)
    longest = max(map(len, sheet.called_clients), default=0)
    axes.tick_params(axis="y", which="major", length=0, pad=max(20, 8 + 4 * longest) if few and shown else 5)
    axes.tick_params(axis="y", which="minor", length=0, pad=3, labelsize=7)
    for label, lane in zip(axes.get_yticklabels(), shown, strict=True):
        label.set_color(sheet.colours[lane])
    side = axes.get_yaxis_transform()  # x by width, y by row: on the right edge
    for group in together({row: sheet.heights[row] for row in sheet.erased}, line):
        who = textwrap.shorten(", ".join(sheet.erased[row] for row in group), 34, placeholder=" …")
        height = sum(sheet.heights[row] for row in group) / len(group)
        axes.text(1.008, height, who, color=RED, fontsize=7.5, va="center", transform=side, parse_math=False)
    for row in sheet.erased if few else ():
        label = axes.get_yticklabels(minor=True)[row]
        label.set_color(RED)
        label.set_fontweight("bold")


def apart(heights: dict[Name, float], line: float) -> list[Name]:
    """As many as can stand below one another without touching."""
    shown: list[Name] = []
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        if not shown or height - heights[shown[-1]] >= line:
            shown.append(name)
    return shown


def together(heights: dict[Name, float], line: float) -> list[list[Name]]:
    """All of them, from above: those that would touch are in one group."""
    found: list[list[Name]] = []
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        if found and height - heights[found[-1][-1]] < line:
            found[-1].append(name)
        else:
            found.append([name])
    return found


def _legend(figure: Any, sheet: Sheet) -> None:
    """Only what is in this picture."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    history, kinds = sheet.history, {bar.kind for bar in sheet.bars}
    own = activity.own_curves(history)
    lines = [Line2D([], [], color=colour, linewidth=0.9) for colour in sheet.shades]
    boxes = [Patch(color=colour) for colour in sheet.shades]
    several = len(boxes) > 1
    signs: dict[str, Any] = {
        "served model, measured at the dots" if sheet.dotted else "served model": sheet.measured
        and Line2D([], [], color=BLACK, linewidth=1.8, marker="o" if sheet.dotted else "", markersize=3.6),
        f"a {sheet.lane}'s own model": any(own.values()) and len(own) <= len(LANES) and tuple(lines),
        f"{sheet.called}, worst to best": activity.band(history) and Patch(color=GREY, alpha=0.18),
        f"training, by {sheet.lane}" if several else "training": "lane" in kinds and tuple(boxes),
        "profiling": "apart" in kinds and Patch(color=SILVER),
        "joint round": "joint" in kinds and Patch(color=BLACK),
        "last visit": "visit" in kinds and Patch(color=RED),
        "called back by a request": "cut" in kinds and Patch(**CUT),
        "begins again": activity.restarts(history) and Line2D([], [], color=RED, linewidth=1.8),
        "erased client": sheet.gone and Patch(color=PALE),
    }
    found = {activity.sign(served) for served in history.served if served.clients}
    for sign, meaning in (mark for kind, mark in MARKS.items() if kind in found):
        signs[meaning] = Line2D([], [], color=GREY, marker=sign, linestyle="none", markersize=6)
    shown = {meaning: sign for meaning, sign in signs.items() if sign}
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=min(len(shown), 4),
        frameon=False,
        fontsize=8,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
    )
