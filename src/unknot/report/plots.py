"""The figures of a reproduction, by matplotlib: ``pip install -e '.[plot]'``."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unknot.report.canvas import GREY, HEIGHT, MARKS, WIDTH, headline, letters_in, load_matplotlib
from unknot.report.cells import Shown
from unknot.report.colours import looks as looks_of
from unknot.report.pictures import digest, save
from unknot.report.plot_bars import BESIDE, GUESSES, LOOKS, MEASURES, SIGNS, bars_of, measured
from unknot.report.plot_curves import BEYOND, GOES_ON, HIDDEN, band_of, curves_of, going_on, hiding

NO_BREAK = "\u00a0"
MODELS = {
    **dict.fromkeys(("cnn-exact", "cnn-incentive"), "CNN"),
    "mlp": "MLP",
    "lenet5": "LeNet-5",
    "vgg16": "VGG-16",
    "gpt": "small GPT",
    "gpt2": "GPT-2",
    "pretrained": "pretrained model",
}
DATA = {
    "mnist": "MNIST",
    "mnist-writers": "MNIST by writer",
    "fashion-mnist": "Fashion-MNIST",
    "femnist": "FEMNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "location30": "Location-30",
    "purchase100": "Purchase-100",
    "shakespeare": "Shakespeare",
    "langid": "languages",
    "sentiments": "sentiments",
}
"""What people call them; the others have their names in files."""


def draw(findings: Shown, *files: str | Path) -> bool:
    """Write the figure to files (the ending says how: .png, .svg); False where there is nothing to draw."""
    panels = _titled([panel for panel in findings["panels"] if panel["lines"]])
    if not panels:
        return False
    figure_of, style = load_matplotlib()
    bars = [bar for bar in findings["bars"] if measured(bar, panels)]
    curved = panels if findings["curves"] or not bars else []
    axes_count = len(curved) + len(bars)
    columns = axes_count if axes_count <= 3 else math.ceil(axes_count / math.ceil(axes_count / 3))
    rows = math.ceil(axes_count / columns)
    width = WIDTH * max(columns, 1.6)
    with style:
        figure = figure_of(
            figsize=(width, (HEIGHT if axes_count > 1 else 3.4) * rows + 0.9), layout="constrained"
        )
        figure.subplots(rows, columns, squeeze=False)
        looks = looks_of(line["name"] for panel in panels for line in panel["lines"])
        signs: set[str] = set()
        for axes, panel in zip(figure.axes, curved, strict=False):
            curves_of(axes, panel, looks, findings["axis"] == "time")
        for axes, measure in zip(figure.axes[len(curved) :], bars, strict=False):
            signs |= bars_of(axes, panels, measure, looks)
            baseline = panels[0]["labels"].get(findings["baseline"], "")
            axes.set_title(textwrap.fill(MEASURES[measure].format(baseline=baseline), 30), fontsize=9)
        for axes in figure.axes[axes_count:]:
            axes.set_axis_off()
        rows = _legend(figure, panels, looks, bars, bool(curved), signs, columns=max(2, int(width / 1.4)))
        lines = [*headline(findings, width), *_whole(_trained(panels), letters_in(width))]
        figure.suptitle("\n".join(lines), fontsize=10.5)
        # What stands around the axes takes nothing away from them.
        figure.set_figheight(figure.get_figheight() + 0.2 * (len(lines) - 1) + 0.17 * max(0, rows - 2))
        save(figure, files, digest(findings))
    return True


def _titled(panels: Sequence[Shown]) -> list[Shown]:
    """The panels; the title of one of a single seed, among others of several, says so."""
    seeds = [max(len(line["seeds"]) for line in panel["lines"]) for panel in panels]
    return [
        {**panel, "title": f"{panel['title']} (one seed)"}
        if one == 1 < max(seeds) and not panel.get("earlier")
        else panel
        for one, panel in zip(seeds, panels, strict=True)
    ]


def _trained(panels: Sequence[Shown]) -> str:
    """What is trained on what: ``MLP on digits, MNIST; small GPT on Shakespeare``."""
    data: dict[str, dict[str, None]] = {}
    for panel in panels:
        model, _, name = panel["trained"].partition(" on ")
        data.setdefault(MODELS.get(model, model), {})[DATA.get(name, name)] = None
    return "; ".join(f"{model} on {', '.join(names)}" for model, names in data.items())


def _whole(text: str, room: int) -> list[str]:
    """Wrapped between what semicolons part, where each of that has room."""
    if max(map(len, parts := text.split("; "))) >= room:
        return textwrap.wrap(text, room)
    kept = "; ".join(part.replace(" ", NO_BREAK) for part in parts)
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(kept, room)]


def _legend(
    figure: Any,
    panels: Sequence[Shown],
    looks: Mapping[str, Any],
    bars: Sequence[str],
    curved: bool,
    signs: set[str],
    columns: int,
) -> int:
    """Only what is in this figure; says in how many rows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = {line["name"]: line["label"] for panel in panels for line in panel["lines"]}
    handles: list[Any] = [Line2D([], [], linewidth=1.6, **look) for look in looks.values()]
    names = [labels[name] for name in looks]
    every = [line for panel in panels for line in panel["lines"]]
    if band := band_of(every) if curved else "":
        handles.append(Patch(color=GREY, alpha=0.25, linewidth=0))
        names.append(band)
    stats = [line["measures"][bar] for line in every for bar in bars if bar in line["measures"]]
    if any(stat["std"] for stat in stats):
        handles.append(Line2D([], [], color="#333333", marker="|", linestyle="none", markersize=9))
        names.append("standard deviation over the seeds")
    for sign, meaning in SIGNS.items():
        if sign in signs:
            look = LOOKS.get(sign)
            handles.append(
                Line2D([], [], color=GREY, **look) if look else Patch(facecolor="none", edgecolor=GREY)
            )
            names.append(meaning)
    if any(bar.partition("_")[0] in GUESSES for bar in bars):
        for look, meaning in BESIDE.values():
            handles.append(Line2D([], [], linestyle="none", markersize=5, **look))
            names.append(meaning)
    if curved and any(map(going_on, panels)):
        handles.append(Line2D([], [], color=GREY, **BEYOND))
        names.append(GOES_ON)
    if curved and any(any(hiding(panel["lines"]).values()) for panel in panels):
        handles.append(Line2D([], [], color=GREY, linewidth=4, alpha=0.6))
        names.append(HIDDEN)
    if any(panel["thresholds"] for panel in panels):
        handles.append(Line2D([], [], color="#999999", linewidth=0.8, linestyle="--"))
        names.append("threshold")
    kinds = {after["kind"] for panel in panels for line in panel["lines"] for after in line["after"]}
    for kind in sorted(kinds) if curved else ():
        sign, meaning = MARKS[kind]
        handles.append(Line2D([], [], color=GREY, marker=sign, linestyle="none", markersize=5))
        names.append(meaning)
    columns = min(len(names), columns)
    while columns > 1 and _legend_width(names, columns) > figure.get_figwidth() - 0.3:
        columns -= 1
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return math.ceil(len(names) / columns)


def _legend_width(names: Sequence[str], columns: int) -> float:
    """Inches, as measured on our figures: the first columns are the longer ones."""
    rows, longer = divmod(len(names), columns)
    ends = [sum(rows + (i < longer) for i in range(column + 1)) for column in range(columns)]
    widest = [max(map(len, names[start:end])) for start, end in zip([0, *ends], ends, strict=False)]
    return sum(0.48 + 0.057 * length for length in widest)
