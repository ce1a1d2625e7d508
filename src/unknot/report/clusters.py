"""KNOT's clusters for people: a table, a scatter plot as a file, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.core.errors import ConfigError
from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.cells import columns
from unknot.report.colours import COLOURS
from unknot.report.targets import check_picture
from unknot.report.words import label
from unknot.topology import Anchors, Assignment, Bounds, Profiles, anchors, assign, ratings

MARKS = ("o", "s", "^", "D", "v", "P", "X")  # with 8 colours: 56 clusters that look different
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


# The terminal.


def sheet(shown: View) -> RenderableType:
    """The clusters, and the matches at each level."""
    bounds, levels = shown.bounds, shown.assignment.levels
    most = "1 cluster" if bounds.c1 == 1 else f"1 to {bounds.c1} clusters"
    head = (
        f"{len(shown.profiles)} clients, each in {most}; {bounds.c2} to {bounds.c3} clients in each of "
        f"{len(shown.assignment.clusters)} clusters\n"
    )
    matches = "\nmatches at each rating (0 fits best, 100 worst), the worst first: "
    return Group(head, _table(shown), matches + ", ".join(f"{many} at {at}" for at, many in levels.items()))


def _table(shown: View) -> Table:
    names, times, disparities = shown.profiles.names, shown.profiles.times, shown.profiles.disparities
    found = columns("cluster>", "clients>", "worst>", "mean time>", "mean disparity>", "members")
    for n, members in enumerate(shown.assignment.clusters):
        figures = ["–"] * 3
        if members:
            time = math.fsum(times[k] / len(members) for k in members)  # their sum may be no float
            disparity = math.fsum(disparities[k] for k in members) / len(members)
            figures = [f"{shown.assignment.worst(n)}", f"{time:.4g}", f"{disparity:.3f}"]
        who = label(_sorted([names[k] for k in members])) if members else ""
        found.add_row(f"{n}", f"{len(members)}", *figures, Text(who))
    return found


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
