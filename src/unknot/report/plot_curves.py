"""The curves of a panel: means over the seeds and their bands, requests, thresholds."""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from unknot.report.canvas import GREY, MARKS
from unknot.report.cells import Shown, in_percent

DIVERGED, SHOWN, FEW = 1e4, 30.0, 4.0
"""From one end of an axis to the other: too far, what is shown then, near."""
ALIKE = 0.9  # of two curves' places: where they are the same in so many, one hides the other
BEYOND: Any = {"marker": ">", "markersize": 5, "linestyle": "none"}
GOES_ON = "goes on beyond the axis"
HIDDEN = "wide where a narrower line is the same"


def curves_of(axes: Any, panel: Shown, looks: Mapping[str, Any], over_time: bool) -> None:
    factor = 100.0 if in_percent(panel["metric"]) else 1.0
    above = hiding(panel["lines"])
    for line in panel["lines"]:
        curve = line["curve"]
        x, mean, low, high = (
            curve["at"],
            *([factor * value for value in curve[name]] for name in ("mean", "low", "high")),
        )
        axes.plot(x, mean, linewidth=1.4 + 1.8 * above[line["name"]], **looks[line["name"]])
        color = looks[line["name"]]["color"]
        axes.fill_between(x, low, high, color=color, alpha=0.07 if line["lanes"] else 0.15, linewidth=0)
        for edge in (low, high) if line["lanes"] else ():  # where bands lie on one another, these tell whose
            axes.plot(x, edge, color=color, linewidth=0.5, alpha=0.8)
    for at, kind in _asked(panel, over_time):
        axes.axvline(at, color=GREY, linewidth=0.8, linestyle="-" if kind == "erase" else ":", zorder=0)
        sign, _ = MARKS[kind]
        place = axes.get_xaxis_transform()  # x by round or time, y by height: on the upper edge
        axes.plot(at, 1, sign, color=GREY, markersize=5, transform=place, clip_on=False)
    for threshold in panel["thresholds"]:
        axes.axhline(factor * threshold, color="#999999", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_title(textwrap.fill(_title(panel), 36), fontsize=10, pad=8)
    cut = going_on(panel)
    axes.set_xlim(left=0 if over_time else None, right=panel["until"] if cut else None)
    axes.set_xlabel("simulated time (s)" if over_time else "round")
    axes.set_ylabel(f"{panel['split']} {panel['metric']}{' (%)' if in_percent(panel['metric']) else ''}")
    if panel["metric"] == "perplexity":
        _logarithmic(axes)
    for line in cut:
        curve, side = line["curve"], {"clip_on": False, "zorder": 4, **BEYOND}
        height = factor * curve["mean"][bisect_right(curve["at"], panel["until"]) - 1]
        low, high = axes.get_ylim()
        if low <= height <= high:
            axes.plot(panel["until"], height, color=looks[line["name"]]["color"], **side)


def going_on(panel: Shown) -> list[Shown]:
    """Lines that go on where the axis ends."""
    until, lines = panel["until"], [line for line in panel["lines"] if line["curve"]["at"]]
    return [line for line in lines if until and line["curve"]["at"][0] <= until < line["curve"]["at"][-1]]


def hiding(lines: Sequence[Shown]) -> dict[str, int]:
    """By line, how many that are drawn later are the same: it is so much wider, and its edges can be seen."""
    curves = {
        line["name"]: list(zip(line["curve"]["at"], line["curve"]["mean"], strict=True)) for line in lines
    }
    names = list(curves)

    def same(one: str, other: str) -> bool:
        if len(curves[one]) != len(curves[other]):
            return False
        places = zip(curves[one], curves[other], strict=True)
        alike = sum(a == b and math.isclose(x, y, rel_tol=1e-9) for (a, x), (b, y) in places)
        return bool(alike > ALIKE * len(curves[one]))

    return {name: sum(same(name, other) for other in names[i + 1 :]) for i, name in enumerate(names)}


def _asked(panel: Shown, over_time: bool) -> list[tuple[float, str]]:
    """When requests came, and of which kind. Where it finds lines a round apart: one mark."""
    afters = [after for line in panel["lines"] for after in line["after"]]
    if over_time:
        return sorted({(after["time"], after["kind"]) for after in afters})
    found: dict[tuple[int, str], float] = {}
    for after in afters:
        key = (after["round"], after["kind"])
        found[key] = min(after["at"], found.get(key, after["at"]))
    return sorted((at, kind) for (_, kind), at in found.items())


def _title(panel: Shown) -> str:
    """A panel's, and that its runs are of an earlier configuration, which the page tells more of."""
    if not panel.get("earlier"):
        return str(panel["title"])
    seeds = max(len(line["seeds"]) for line in panel["lines"])
    return f"{panel['title']} (earlier configuration, {'one seed' if seeds == 1 else f'{seeds} seeds'})"


def _logarithmic(axes: Any) -> None:
    """Perplexities begin in the thousands and end in the tens; ticks are plain numbers all the same.

    One that has diverged has no end: its line leaves the figure, so that the others can be read.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low > DIVERGED:
        # Not the axis' own: its margins grow with what diverges. `ymin` rounding may bring below 0.
        low = 0.9 * axes.dataLim.minposy
        high = SHOWN * low
        axes.set_ylim(low, high)
    steps = (1.0, 2.0, 5.0) if high / low > FEW else tuple(range(1, 10))
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def band_of(lines: Sequence[Shown]) -> str:
    """What the bands of the curves are."""
    clusters = any(line["lanes"] for line in lines)
    seeds = any(not line["lanes"] and len(line["seeds"]) > 1 for line in lines)
    words = [name for name, there in {"cluster": clusters, "seed": seeds}.items() if there]
    return f"worst to best {', or '.join(words)}" if words else ""
