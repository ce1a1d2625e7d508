"""A comparison of methods as a picture: the metric over time, and what was paid for it right after."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.report.cells import Shown
from unknot.report.compared import called, short, title, window
from unknot.report.plots import COLOURS, DASHES, GREY, MARKS, load_matplotlib
from unknot.report.timeline import DATES, check

TINTS = (*COLOURS, "#332288", "#999933", "#882255", "#88CCEE")
MARKERS = "os^DvPXh"
"""A sign a method, beside its colour and its dash."""


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
    looks = {method["method"]: _look(place) for place, method in enumerate(comparison["methods"])}
    drawn = [method for method in comparison["methods"] if method["failed"] < method["seeds"]]
    figure = figure_of(figsize=(9.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.55, 1], sharey=True)
    _over_time(left, comparison, drawn, looks)
    _paid(right, comparison, drawn, looks)
    if comparison["share"]:
        low, high = left.get_ylim()
        left.set_ylim(max(low, -2.0), min(high, 102.0))
    _legend(figure, comparison, drawn, looks)
    figure.suptitle(textwrap.fill(title(comparison), 110), fontsize=10.5, parse_math=False)
    return figure


def _look(place: int) -> dict[str, Any]:
    """Where colours come round again, dashes and signs are others than before."""
    shifted = place + place // len(DASHES)
    return {
        "color": TINTS[place % len(TINTS)],
        "linestyle": DASHES[shifted % len(DASHES)],
        "marker": MARKERS[shifted % len(MARKERS)],
    }


def _over_time(axes: Any, comparison: Shown, methods: Sequence[Shown], looks: Mapping[str, Any]) -> None:
    factor = _factor(comparison)
    for method in methods:
        curve, look = method["curve"], looks[method["method"]]
        if curve is None:
            continue
        mean, low, high = ([factor * value for value in curve[name]] for name in ("mean", "low", "high"))
        line = {name: look[name] for name in ("color", "linestyle")}
        axes.plot(curve["at"], mean, linewidth=1.4, drawstyle="steps-post", **line)
        if len(comparison["seeds"]) > 1:
            axes.fill_between(
                curve["at"], low, high, step="post", color=look["color"], alpha=0.13, linewidth=0
            )
        for moment in curve["asked"][1:]:
            axes.plot(moment, 1, "v", color=look["color"], markersize=5, transform=axes.get_xaxis_transform())
    sign, _ = MARKS["erase"]
    if comparison["erasures"]:
        axes.axvline(0, color=GREY, linewidth=0.8, zorder=0)
        axes.plot(0, 1, sign, color=GREY, markersize=6, transform=axes.get_xaxis_transform(), clip_on=False)
    since = "simulated seconds since the first erasure" if comparison["erasures"] else "simulated seconds"
    axes.set_xlim(*window(comparison))
    axes.set_xlabel(since)
    axes.set_ylabel(called(comparison))
    axes.set_title(f"{comparison['metric']} of the served model", fontsize=9.5)


def _paid(axes: Any, comparison: Shown, methods: Sequence[Shown], looks: Mapping[str, Any]) -> None:
    """How good the model is right after a request, by what was trained before any."""
    factor = _factor(comparison)
    extra = any(method["stats"]["extra_training"] for method in methods)
    cost = "extra_training" if extra else "client_epochs_before"
    figure = "after" if comparison["erasures"] else "final"
    for method in methods:
        x, y = method["stats"][cost], method["stats"][figure]
        if x is None or y is None:
            continue
        look = looks[method["method"]]
        exact = short(method["guarantee"]).startswith("exact")
        axes.errorbar(
            x["mean"],
            factor * y["mean"],
            factor * (y["std"] or 0.0),
            x["std"] or 0.0,
            fmt=look["marker"],
            color=look["color"],
            markerfacecolor=look["color"] if exact else "none",  # what lies below is to be seen
            markersize=6 if exact else 9,
            elinewidth=1.1,
        )
    axes.set_xlim(left=0)
    axes.set_xlabel(
        "training before any request (× plain training)" if extra else "client epochs before any request"
    )
    axes.set_title("right after the request" if comparison["erasures"] else "at the end", fontsize=9.5)


def _legend(figure: Any, comparison: Shown, methods: Sequence[Shown], looks: Mapping[str, Any]) -> None:
    from matplotlib.lines import Line2D

    signs = {}
    for method in methods:
        look = looks[method["method"]]
        exact = short(method["guarantee"]).startswith("exact")
        signs[method["method"]] = Line2D(
            [], [], linewidth=1.6, markersize=6, markerfacecolor=look["color"] if exact else "white", **look
        )
    grey: Any = {"color": GREY, "linestyle": "none", "markersize": 6}
    if comparison["erasures"]:
        signs["an erasure"] = Line2D([], [], marker=MARKS["erase"][0], **grey)
    if {short(method["guarantee"]).startswith("exact") for method in methods} == {True, False}:
        signs["filled: exact"] = Line2D([], [], marker="o", **grey)
        signs["open: not"] = Line2D([], [], marker="o", markerfacecolor="white", **grey)
    figure.legend(
        signs.values(),
        signs.keys(),
        loc="outside lower center",
        ncols=min(len(signs), 6 if max(map(len, signs)) < 18 else 4),
        frameon=False,
        fontsize=8,
    )


def _factor(comparison: Shown) -> float:
    return 100.0 if comparison["share"] else 1.0
