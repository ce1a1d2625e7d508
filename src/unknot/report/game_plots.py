"""The figures of a reproduction that plays games, by matplotlib: ``pip install -e '.[plot]'``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unknot.incentive import READINGS
from unknot.report.canvas import GREY, HEIGHT, WIDTH, headline, load_matplotlib
from unknot.report.cells import Shown
from unknot.report.colours import looks
from unknot.report.pictures import digest, save
from unknot.report.utilities import ALONG

MARKS = ("o", "s", "^", "D", "v")
LOOKS = looks(("evolutionary", *READINGS))
SIGNS = dict(zip(LOOKS, MARKS, strict=True))
SHADES = {"above": "#0072B2", "level": "#D9D9D9", "below": "#D55E00"}


def draw(findings: Shown, *files: str | Path) -> bool:
    """Write the figure to files (the ending says how: .png, .svg); False where there is nothing to draw."""
    panels = [panel for panel in findings["panels"] if panel["lines"]]
    if not panels:
        return False
    figure_of, style = load_matplotlib()
    compared = [panel for panel in panels if panel["over"] == "periods" and len(panel["lines"]) > 1]
    columns = len(panels) + len(compared)
    width = WIDTH * max(1.25 * columns, 1.95)
    with style:
        figure = figure_of(figsize=(width, HEIGHT + 1.4), layout="constrained")
        figure.subplots(1, columns, width_ratios=[1.3] * len(panels) + [1.0] * len(compared))
        for axes, panel in zip(figure.axes, panels, strict=False):
            curves(axes, panel, titled=columns > 1)
        for axes, panel in zip(figure.axes[len(panels) :], compared, strict=True):
            beside(axes, panel)
        _legend(figure, panels)
        figure.suptitle("\n".join(headline(findings, width)), fontsize=10.5)
        save(figure, files, digest(findings))
    return True


def curves(axes: Any, panel: Shown, *, titled: bool = True) -> None:
    """A line a policy; its band is the middle half of the draws."""
    for line in panel["lines"]:
        curve, colour = line["curve"], LOOKS[line["name"]]["color"]
        plot(axes, line["name"], curve["at"], curve["mean"], few=panel["over"] != "periods")
        axes.fill_between(curve["at"], curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
    along(axes, panel["over"], panel["lines"][0]["curve"]["at"])
    if titled:
        axes.set_title(textwrap.fill(panel["title"], 48), fontsize=9.5, loc="left")
    else:
        axes.set_ylabel(panel["title"])


def plot(axes: Any, name: str, at: Sequence[float], values: Sequence[float], *, few: bool) -> None:
    """The line of a policy, as it looks in all figures; its points are marked where there are few."""
    look = {**LOOKS[name], "linewidth": 1.5, "zorder": 2.5}
    if few:
        look |= {"marker": SIGNS[name], "markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.6}
    elif name == "random":
        look |= {"linewidth": 0.8, "zorder": 2.2}  # it never rests, and would hide what lies beneath
    if name == "evolutionary":
        look |= {"linewidth": 2.0, "zorder": 3}
    axes.plot(at, values, label=name.replace("_", "-"), **look)


def along(axes: Any, over: str, at: Sequence[float]) -> None:
    """The axis below: learning rates are doubled from one to the next."""
    axes.set_xlabel(ALONG[over])
    if over == "periods":
        axes.set_xlim(0, at[-1])
    elif over == "clients":
        axes.set_xticks(at)
    else:
        axes.set_xscale("log", base=2)
        axes.set_xticks(at, [f"{rate:g}" for rate in at])
        axes.minorticks_off()
    if over in ("clients", "settling"):
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def beside(axes: Any, panel: Shown) -> None:
    """How often the game is above, level with, below each of the others at the end: of all draws."""
    lines = [line for line in panel["lines"] if line["beside"] is not None]
    for row, line in enumerate(lines):
        left = 0
        for (name, colour), draws in zip(SHADES.items(), line["beside"], strict=True):
            look = {"color": colour, "edgecolor": "white", "linewidth": 0.8}
            axes.barh(row, draws, 0.62, left=left, label=name if row == 0 else None, **look)
            left += draws
        numbers, side = " · ".join(map(str, line["beside"])), axes.get_yaxis_transform()
        axes.text(1.02, row, numbers, transform=side, va="center", fontsize=8, color=GREY)
    axes.set_yticks(range(len(lines)), [line["label"].replace(" (", "\n(") for line in lines], fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xlim(0, lines[0]["draws"])
    axes.set_xlabel("draws")
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(
        f"draws in which, in period {panel['places'][-1]:g}, the game is", fontsize=9.5, loc="left"
    )
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "borderaxespad": 0.0}
    axes.legend(ncols=3, frameon=False, fontsize=8.5, columnspacing=1.4, handlelength=1.2, **place)


def _legend(figure: Any, panels: Sequence[Shown]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    few = any(panel["over"] != "periods" for panel in panels)
    labels = {line["name"]: line["label"] for panel in panels for line in panel["lines"]}
    looks = {name: LOOKS[name] | ({"marker": SIGNS[name]} if few else {}) for name in labels}
    handles: list[Any] = [Line2D([], [], linewidth=1.6, markeredgecolor="white", **looks[n]) for n in labels]
    handles.append(Patch(color=GREY, alpha=0.25, linewidth=0))
    names = [*labels.values(), "middle half of the draws"]
    figure.legend(
        handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=8, handlelength=2.8
    )
