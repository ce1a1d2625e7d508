"""A comparison of methods as a picture: the metric over time, and what was paid for it right after."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.report.canvas import GREY, MARKS, load_matplotlib
from unknot.report.cells import Shown
from unknot.report.colours import COLOURS
from unknot.report.compared import called, short, title, window
from unknot.report.timeline import DATES, check

TINTS = (*COLOURS, "#332288", "#999933", "#882255", "#88CCEE")
MARKERS = "os^DvPXh"
"""A marker a method, beside its colour."""
PLAIN = "rfs"
"""Plain training: what the others are seen beside."""
SHORT = 0.1
"""A run that is shorter than this share of the time shown has an axis of its own."""
PANEL, SCATTER = 1.35, 3.1  # inches, of height
NEAR = [
    (6, 0),
    (-6, 0),
    *((dx, dy) for far in range(9, 90, 9) for dy in (far, -far) for dx in (8, -8, 30, -30, 60)),
]
"""Where a name may stand beside its point, in points of print, the best place first."""


def draw(comparison: Shown, file: Path) -> None:
    """Write the picture; the same comparison gives the same file."""
    check(file)
    if all(method["failed"] == method["seeds"] for method in comparison["methods"]):
        raise ConfigError("there is nothing to draw: no method could run")
    figure_of, style = load_matplotlib()
    with style:  # while it is saved as well: names within an SVG are made up then
        figure = _figure(comparison, figure_of)
        try:
            figure.savefig(file, dpi=200, metadata=DATES[file.suffix.lower()])
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _figure(comparison: Shown, figure_of: Any) -> Any:
    looks = {method["method"]: _look(place, method) for place, method in enumerate(comparison["methods"])}
    drawn = [method for method in comparison["methods"] if method["failed"] < method["seeds"]]
    curved = [method for method in drawn if method["curve"] is not None]
    columns = min(4, len(curved))
    rows = -(-len(curved) // columns) if columns else 0
    figure = figure_of(figsize=(9.0, PANEL * rows + SCATTER + 0.9), layout="constrained")
    parts = figure.subfigures(
        2 if rows else 1, 1, height_ratios=[PANEL * rows + 0.5, SCATTER][-1 - (rows > 0) :]
    )
    upper, lower = parts if rows else (None, parts)
    if upper is not None:
        grid = upper.subplots(rows, columns, sharey=True, squeeze=False)
        _over_time(upper, grid, comparison, curved, looks)
    _legend(figure, comparison, curved, drawn)
    figure.suptitle(textwrap.fill(title(comparison), 110), fontsize=10.5, parse_math=False)
    _paid(lower.subplots(), comparison, drawn, looks)
    return figure


def _look(place: int, method: Shown) -> dict[str, Any]:
    """Where colours come round again, signs are others than before; filled where a method is exact."""
    tint = TINTS[place % len(TINTS)]
    exact = short(method["guarantee"]).startswith("exact")
    marker = MARKERS[(place + place // len(TINTS)) % len(MARKERS)]
    return {"color": tint, "marker": marker, "markerfacecolor": tint if exact else "white"}


def _over_time(
    figure: Any, grid: Any, comparison: Shown, methods: Sequence[Shown], looks: Mapping[str, Any]
) -> None:
    """A panel a method, on the same axes: with plain training beside it, and what was served right after."""
    factor = _factor(comparison)
    curves = {
        method["method"]: {
            name: [factor * v for v in method["curve"][name]] for name in ("mean", "low", "high")
        }
        for method in methods
    }
    times = {method["method"]: method["curve"]["at"] for method in methods}
    panels = list(grid.flat)
    for axes, method in zip(panels, methods, strict=False):
        name, look = method["method"], looks[method["method"]]
        at, curve = times[name], curves[name]
        if PLAIN in curves and name != PLAIN:
            beside: Any = {
                "color": GREY,
                "linewidth": 0.9,
                "linestyle": (0, (4, 2)),
                "drawstyle": "steps-post",
            }
            axes.plot(times[PLAIN], curves[PLAIN]["mean"], **beside)
        if len(comparison["seeds"]) > 1:
            band: Any = {"step": "post", "color": look["color"], "alpha": 0.18, "linewidth": 0}
            axes.fill_between(at, curve["low"], curve["high"], **band)
        axes.plot(at, curve["mean"], color=look["color"], linewidth=1.6, drawstyle="steps-post")
        edge: Any = {
            "color": GREY,
            "markersize": 4.5,
            "transform": axes.get_xaxis_transform(),
            "clip_on": False,
        }
        for moment in method["curve"]["asked"]:
            axes.axvline(moment, color=GREY, linewidth=0.7, zorder=0)
            axes.plot(moment, 1, MARKS["erase"][0], **edge)
        if comparison["erasures"] and (after := [i for i, moment in enumerate(at) if moment >= 0]):
            axes.plot(0, curve["mean"][after[0]], markersize=6, zorder=4, clip_on=False, **look)
        left, right = _shown(comparison, method)
        if left is not None and right is not None:
            axes.set_xlim(left, right)
            _cuts(axes, at, curve["mean"], (left, right), look["color"])
        own = " (own time axis)" if _alone(comparison, method) else ""
        told = textwrap.shorten(name, 34 - len(own), placeholder=" …") + own
        axes.set_title(told, fontsize=8.5, pad=7, parse_math=False)
        axes.tick_params(labelsize=7.5)
    for axes in panels[len(methods) :]:
        axes.set_axis_off()
    for place, (axes, method) in enumerate(zip(panels, methods, strict=False)):
        alone = _alone(comparison, method)
        axes.tick_params(labelbottom=alone or place + grid.shape[1] >= len(methods))
    if comparison["share"]:
        low, high = panels[0].get_ylim()
        panels[0].set_ylim(max(low, -2.0), min(high, 102.0))
    since = "simulated seconds since the first erasure" if comparison["erasures"] else "simulated seconds"
    figure.supxlabel(since, fontsize=9)
    figure.supylabel(called(comparison), fontsize=9)


def _shown(comparison: Shown, method: Shown) -> tuple[float, float] | tuple[None, None]:
    """From when to when a panel goes: as all do, or where its run would be a few dots of it, as that does."""
    at = method["curve"]["at"]
    if _alone(comparison, method):
        return at[0], at[-1]
    left, right = window(comparison)
    if left is None or right is None:
        curves = [one["curve"]["at"] for one in comparison["methods"] if one["curve"]]
        return min(times[0] for times in curves), max(times[-1] for times in curves)
    return left, right


def _alone(comparison: Shown, method: Shown) -> bool:
    left, right = window(comparison)
    at = method["curve"]["at"]
    return left is not None and right is not None and 0 < at[-1] - at[0] < SHORT * (right - left)


def _ends(at: Sequence[float], left: float, right: float) -> list[tuple[str, float]]:
    """On which edges a line is cut: the marker that says so, and where."""
    return [("<", left)] * (at[0] < left) + [(">", right)] * (at[-1] > right)


def _cuts(
    axes: Any, at: Sequence[float], values: Sequence[float], edges: tuple[float, float], tint: str
) -> None:
    for marker, edge in _ends(at, *edges):
        value = [value for moment, value in zip(at, values, strict=True) if moment <= edge][-1]
        axes.plot(edge, value, marker, color=tint, markersize=5, clip_on=False, zorder=5)


def _extent(comparison: Shown, method: Shown, figure: str) -> tuple[float, float]:
    """The least and the greatest of the seeds."""
    rows = [row[figure] for row in comparison["rows"] if row["method"] == method["method"]]
    values = [value for value in rows if value is not None] or [method["stats"][figure]["mean"]]
    return min(values), max(values)


def _paid(axes: Any, comparison: Shown, methods: Sequence[Shown], looks: Mapping[str, Any]) -> None:
    """How good the model is right after a request, by what was trained before any."""
    factor = _factor(comparison)
    extra = any(method["stats"]["extra_training"] for method in methods)
    cost = "extra_training" if extra else "client_epochs_before"
    figure = "after" if comparison["erasures"] else "final"
    points: list[tuple[str, float, float]] = []
    whiskers: list[tuple[float, float, float, float]] = []
    found = [method for method in methods if method["stats"][cost] and method["stats"][figure]]
    far = max((method["stats"][cost]["mean"] for method in found), default=1.0)
    for method in found:
        name, x, y = method["method"], method["stats"][cost], method["stats"][figure]
        across, up = x["mean"], factor * y["mean"]
        while any(abs(a - across) < far / 90 and abs(b - up) < 2.5 * factor / 100 for _, a, b in points):
            across += far / 70
        aside = across - x["mean"]
        left, right = (aside + end for end in _extent(comparison, method, cost))
        low, high = (factor * end for end in _extent(comparison, method, figure))
        bar: Any = {"color": looks[name]["color"], "linewidth": 0.9}
        axes.plot([left, right], [up, up], **bar)
        axes.plot([across, across], [low, high], **bar)
        axes.plot(across, up, linestyle="none", markersize=6.5, zorder=4, **looks[name])
        points.append((name, across, up))
        whiskers += [(left, up, right, up), (across, low, across, high)]
    axes.set_xlim(left=0)
    if comparison["share"]:
        axes.set_ylim(-4, 104)
    axes.set_xlabel(
        "training before any request (× plain training)" if extra else "client epochs before any request"
    )
    axes.set_ylabel(called(comparison))
    when = "right after the request" if comparison["erasures"] else "at the end"
    axes.set_title(f"{when} (markers that would coincide lie side by side)", fontsize=9.5)
    _named(axes, points, whiskers, looks)


def _named(
    axes: Any,
    points: Sequence[tuple[str, float, float]],
    whiskers: Sequence[tuple[float, float, float, float]],
    looks: Mapping[str, Any],
) -> None:
    """Each point's name beside it, or where there is room, and then with a line to it."""
    figure = axes.get_figure(root=True)
    figure.draw_without_rendering()  # only now it is known where the points lie
    inch, box = figure.dpi / 72, axes.get_window_extent()
    spots = [axes.transData.transform((x, y)) for _, x, y in points]
    taken = [(x - 5 * inch, y - 5 * inch, x + 5 * inch, y + 5 * inch) for x, y in spots]
    for x0, y0, x1, y1 in whiskers:
        (left, low), (right, high) = axes.transData.transform([(x0, y0), (x1, y1)])
        taken.append((left - 1, low - 1, right + 1, high + 1))
    for (name, *at), (x, y) in sorted(zip(points, spots, strict=True), key=lambda item: -item[1][1]):
        wide, high = (4.3 * len(name) + 4) * inch, 10 * inch
        for dx, dy in NEAR:
            left = x + dx * inch - (wide if dx < 0 else 0)
            low = y + dy * inch - high / 2
            here = (left, low, left + wide, low + high)
            inside = box.x0 <= here[0] and here[2] <= box.x1 and box.y0 <= here[1] and here[3] <= box.y1
            if inside and not any(_touch(here, other) for other in taken):
                break
        taken.append(here)
        line = {
            "arrowstyle": "-",
            "color": looks[name]["color"],
            "linewidth": 0.6,
            "shrinkA": 0,
            "shrinkB": 4,
        }
        axes.annotate(
            name,
            at,
            (dx, dy),
            textcoords="offset points",
            ha="right" if dx < 0 else "left",
            va="center",
            fontsize=8,
            parse_math=False,
            arrowprops=line if abs(dx) + abs(dy) > 12 else None,
        )


def _touch(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _legend(figure: Any, comparison: Shown, methods: Sequence[Shown], drawn: Sequence[Shown]) -> None:
    """Of the `methods` that have a panel, and of all that are `drawn`."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    signs: dict[str, Any] = {}
    if len(methods) > 1 and any(method["method"] == PLAIN for method in methods):
        signs[f"{PLAIN}, for comparison"] = Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
    if len(comparison["seeds"]) > 1:
        if methods:
            signs["band: least to greatest of the seeds"] = Patch(color=GREY, alpha=0.25, linewidth=0)
        if drawn:
            signs["bar: likewise, of each axis"] = Line2D([], [], color=GREY, linewidth=0.9)
    grey: Any = {"color": GREY, "linestyle": "none", "markersize": 6}
    if comparison["erasures"]:
        signs["an erasure"] = Line2D([], [], marker=MARKS["erase"][0], **grey)
        signs["right after it: filled where exact"] = Line2D([], [], marker="o", **grey)
        signs["open where not"] = Line2D([], [], marker="o", markerfacecolor="white", **grey)
    spans = [(method["curve"]["at"], *_shown(comparison, method)) for method in methods]
    if any(_ends(at, left, right) for at, left, right in spans if left is not None and right is not None):
        signs["the run goes on beyond the edge"] = Line2D([], [], marker=">", **grey)
    if signs:
        columns = len(signs) if len(signs) <= 4 else -(-len(signs) // 2)
        place: Any = {"loc": "outside lower center", "frameon": False, "fontsize": 8}
        figure.legend(signs.values(), signs.keys(), ncols=columns, columnspacing=1.2, **place)


def _factor(comparison: Shown) -> float:
    return 100.0 if comparison["share"] else 1.0
