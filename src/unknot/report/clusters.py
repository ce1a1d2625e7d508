"""KNOT's clusters for people: a table, a scatter plot of characters, the same as a file, and JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.colours import COLOURS
from unknot.report.fitting import GLUE, USUAL, wrapped
from unknot.report.targets import check_picture
from unknot.report.trees import label_within
from unknot.topology import Anchors, Assignment, Bounds, Profiles, anchors, assign, ratings

SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MARKS = ("o", "s", "^", "D", "v", "P", "X")  # with 8 colours: 56 clusters that look different
WIDE, HIGH = 64, 18  # characters of a plot
LOG = 30  # a longest time so many times the shortest needs a logarithmic axis


@dataclass(frozen=True)
class View:
    """Clients, what is known of them, and where they are assigned."""

    profiles: Profiles
    anchors: Anchors
    bounds: Bounds
    assignment: Assignment

    @cached_property
    def logarithmic(self) -> bool:
        times = self.profiles.times
        return min(times) > 0 and max(times) > LOG * min(times)

    def nearest(self, client: int) -> list[int]:
        """A client's clusters, the best match first."""
        row = self.assignment.ratings[client]
        return sorted(self.assignment.chosen[client], key=lambda n: (int(row[n]), n))


def view(
    profiles: Profiles,
    clusters: int,
    a: float | None = None,
    b: float | None = None,
    c1: int = 1,
    c2: int | None = None,
    c3: int | None = None,
) -> View:
    """The clients of a table in their clusters, ready to be shown."""
    rated = ratings(profiles.times, profiles.disparities, clusters, a, b)
    bounds = Bounds.of(len(profiles), clusters, c1, c2, c3)
    chosen = assign(rated, bounds.c1, bounds.c2, bounds.c3)
    set_ = anchors(profiles.times, profiles.disparities, clusters, a, b)
    return View(profiles, set_, bounds, Assignment(rated, chosen))


def to_json(shown: View) -> str:
    """One object, in the table's order; clusters count from 0."""
    found = shown.assignment
    return json.dumps({"ratings": found.ratings.tolist(), "assignment": [list(of) for of in found.chosen]})


# Characters.


def text(shown: View, width: int = USUAL) -> str:
    """The clusters, the matches at each level, and the plot."""
    bounds, levels = shown.bounds, shown.assignment.levels
    most = "1 cluster" if bounds.c1 == 1 else f"1 to {bounds.c1} clusters"
    # Not broken between a level and its count: the space inside is no place to wrap.
    matches = "  ".join(f"{level}:{GLUE}{count}" for level, count in levels.items())
    head = (
        f"{len(shown.profiles)} clients, each in {most}; {bounds.c2} to {bounds.c3} clients in each of "
        f"{len(shown.assignment.clusters)} clusters"
    )
    lines = [
        *wrapped(head, width),
        "",
        *table(shown, width),
        "",
        *wrapped("matches at each rating (0 fits best, 100 worst), the worst first:", width),
        *(f"  {line}" for line in wrapped(matches, width - 2)),
        "",
        *scatter(shown, width),
    ]
    return "\n".join(lines)


def table(shown: View, width: int = USUAL) -> list[str]:
    """A line a cluster."""
    names, times, disparities = shown.profiles.names, shown.profiles.times, shown.profiles.disparities
    lines = [
        f"{'':23}{'mean':>11}{'mean':>11}",
        f"{'cluster':>7}{'clients':>9}{'worst':>7}{'time':>11}{'disparity':>11}  members",
    ]
    for n, members in enumerate(shown.assignment.clusters):
        if not members:
            lines.append(f"{n:7}{0:9}{'–':>7}{'–':>11}{'–':>11}")
            continue
        time = math.fsum(times[k] / len(members) for k in members)  # their sum may be no float
        disparity = math.fsum(disparities[k] for k in members) / len(members)
        who = label_within(_sorted([names[k] for k in members]), width - 47, 40)
        worst = shown.assignment.worst(n)
        lines.append(f"{n:7}{len(members):9}{worst:7}{time:11.4g}{disparity:11.3f}  {who}")
    return lines


def scatter(shown: View, width: int = USUAL) -> list[str]:
    """Clients by time (across) and disparity (upwards), each with the sign of its cluster."""
    profiles, set_ = shown.profiles, shown.anchors
    wide = min(WIDE, width - 8)
    across = _axis(shown, wide)
    top = float(set_.disparities[-1])  # 1: the last anchor, and no disparity is greater

    def up(disparity: float) -> int:
        return round(disparity / top * (HIGH - 1))

    cells: dict[tuple[int, int], Counter[int]] = {}
    for k, (time, disparity) in enumerate(zip(profiles.times, profiles.disparities, strict=True)):
        cell = cells.setdefault((up(disparity), across(time)), Counter())
        cell[shown.nearest(k)[0]] += 1
    signs = {at: _sign(min(cell, key=lambda n: (-cell[n], n))) for at, cell in cells.items()}
    for time, disparity in zip(set_.times.tolist(), set_.disparities.tolist(), strict=True):
        signs.setdefault((up(disparity), across(time)), "◆")  # a client on it is worth more
    lines = ["disparity"]
    for y in range(HIGH - 1, -1, -1):
        tick = f"{top * y / (HIGH - 1):.2f}" if y in (0, HIGH - 1) else ""
        row = "".join(signs.get((y, x), " ") for x in range(wide)).rstrip()
        lines.append(f"{tick:>5} │{row}")
    first, last = f"{min(profiles.times):.4g}", f"{max(profiles.times):.4g}"
    middle = "time, logarithmic" if shown.logarithmic else "time"
    lines.append("      └" + "─" * wide)
    lines.append(f"       {first}{middle:^{wide - len(first) - len(last)}}{last}")
    told = "each sign is a client's cluster (the commonest where several share a place), ◆ an anchor"
    return [*lines, *wrapped(told, width)]


def _axis(shown: View, wide: int) -> Any:
    """From a time to a column."""
    scale = math.log if shown.logarithmic else float
    low, high = scale(min(shown.profiles.times)), scale(max(shown.profiles.times))

    def column(time: float) -> int:
        return round((scale(time) - low) / (high - low) * (wide - 1)) if high > low else 0

    return column


def _sign(cluster: int) -> str:
    return SIGNS[cluster] if cluster < len(SIGNS) else "*"


def _sorted(names: Sequence[int | str]) -> list[int | str]:
    return sorted(names, key=lambda name: (name, "") if isinstance(name, int) else (0, name))


# A file.


def draw(shown: View, file: str | Path) -> None:
    """Write the scatter plot to a file; the ending says how: .png, .svg, .pdf."""
    file = Path(file)
    check_picture(file)
    figure_of, style = load_matplotlib()
    found, profiles, set_ = shown.assignment, shown.profiles, shown.anchors
    many = len(profiles)
    size = 34 if many <= 200 else max(3.0, 34 * (200 / many) ** 0.5)
    with style:
        figure = figure_of(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        groups: dict[tuple[int, int], list[int]] = {}
        for k in range(many):
            for place, n in enumerate(shown.nearest(k)):
                groups.setdefault((place, n), []).append(k)
        # A client of several clusters is a mark on larger ones: the best match on top.
        for (place, n), members in sorted(groups.items(), reverse=True):
            axes.scatter(
                [profiles.times[k] for k in members],
                [profiles.disparities[k] for k in members],
                s=size * (1 + 2 * place),
                color=_colour(n),
                marker=_mark(n),
                alpha=1.0 if shown.bounds.c1 > 1 else 0.85 if many <= 1000 else 0.5,
                linewidths=0.4,
                edgecolors="white",
                rasterized=many > 2000,  # an SVG of so many marks would be megabytes
            )
        for n, (time, disparity) in enumerate(zip(set_.times, set_.disparities, strict=True)):
            axes.scatter(
                [time], [disparity], s=150, marker=_mark(n), facecolors="none", edgecolors=_colour(n), lw=1.6
            )
            axes.scatter([time], [disparity], s=26, marker="+", color="#222222", lw=1.0)
        if shown.logarithmic:
            axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.07)
        axes.set_xlabel(f"training time (as in the table{', logarithmic' if shown.logarithmic else ''})")
        axes.set_ylabel("disparity (0: as all, 1: opposite)")
        axes.set_title(f"{many} clients in {len(found.clusters)} clusters", fontsize=10.5)
        _legend(figure, shown)
        try:
            dated = {"Date": None} if file.suffix.lower() == ".svg" else None
            figure.savefig(file, dpi=200, metadata=dated)
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _colour(cluster: int) -> str:
    return COLOURS[cluster % len(COLOURS)]


def _mark(cluster: int) -> str:
    return MARKS[cluster % len(MARKS)]


def _legend(figure: Any, shown: View) -> None:
    from matplotlib.lines import Line2D

    handles, names = [], []
    for n, members in enumerate(shown.assignment.clusters):
        handles.append(Line2D([], [], color=_colour(n), marker=_mark(n), linestyle="none", markersize=6))
        names.append(f"cluster {n}: {len(members)} client{'' if len(members) == 1 else 's'}")
    handles.append(
        Line2D([], [], color=GREY, marker="o", linestyle="none", markersize=10, markerfacecolor="none")
    )
    names.append("anchor of a cluster, with +")
    figure.legend(
        handles, names, loc="outside right upper", frameon=False, fontsize=8.5, ncols=1 + len(names) // 24
    )
