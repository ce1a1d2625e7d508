"""Pictures of an audit: the served model among its controls, and the ROC with the controls as a band."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.report.audit import Shown
from unknot.report.canvas import GREY, load_matplotlib
from unknot.report.colours import COLOURS
from unknot.report.timeline import DATES

SERVED, KEPT = COLOURS[0], COLOURS[1]
LABELS = {"served": "served", "kept": "kept: the erased data left in", "controls": "controls: never had it"}
SIGNS = {"served": "D", "kept": "^", "controls": "o"}


def draw(audit: Shown, file: str | Path) -> None:
    """Write the picture; the same audit gives the same file."""
    try:
        _save(audit, file, Path(file).suffix.lower())
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _save(audit: Shown, out: str | Path, ending: str) -> None:
    figure_of, style = load_matplotlib()
    with style:  # while it is saved as well: names within an SVG are made up then
        figure = _figure(audit, figure_of)
        figure.savefig(out, format=ending[1:], dpi=200, metadata=DATES[ending])


def _figure(audit: Shown, figure_of: Any) -> Any:
    findings = audit["findings"]
    columns = 1 + min(len(findings), 2)
    rows = -(-len(findings) // (columns - 1))
    figure = figure_of(figsize=(3.7 * columns, 3.0 * rows + 0.7), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    _among(figure.add_subplot(grid[:, 0]), findings)
    for place, finding in enumerate(findings):
        axes = figure.add_subplot(grid[place // (columns - 1), 1 + place % (columns - 1)])
        _roc(axes, finding, 0.5 / audit["others"], 0.5 / audit["members"])
    _legend(figure)
    trained = f" ({audit['trained']})" if audit.get("trained") else ""
    title = (
        f"{audit['experiment']}{trained}: {audit['erased']} erased by {audit['method']}: {audit['outcome']}"
    )
    figure.suptitle(title, fontsize=10.5, parse_math=False)
    return figure


def _legend(figure: Any) -> None:
    """A model is a mark on the left and a line on the right, of one colour."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def mark(model: str, colour: str) -> Any:
        return Line2D([], [], color=colour, marker=SIGNS[model], linestyle="none", markersize=5)

    drawn = dict(zip(*reversed(figure.axes[1].get_legend_handles_labels()), strict=True))
    colours = {"served": SERVED, "kept": KEPT, "controls": GREY}
    shown: dict[str, Any] = {
        LABELS[model]: (mark(model, colour), drawn[LABELS[model]]) for model, colour in colours.items()
    }
    shown["not told from the controls"] = Patch(color=GREY, alpha=0.15, linewidth=0)
    shown["guessing"] = drawn["guessing"]
    wide = len(shown) if figure.get_figwidth() > 8 else 3
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=wide,
        frameon=False,
        fontsize=8,
        handlelength=3,
        handler_map={tuple: HandlerTuple(ndivide=None)},
    )


def _among(axes: Any, findings: list[Shown]) -> None:
    """Each attack a row: where the statistic of every model lies, in deviations of the controls."""
    names = [finding["attack"] for finding in findings]
    for row, finding in enumerate(findings):
        values = finding["statistics"]
        critical = finding["critical"]
        axes.fill_between([-critical, critical], row - 0.4, row + 0.4, color=GREY, alpha=0.15, linewidth=0)
        height = [row + 0.22 * ((i % 5) - 2) / 2 for i in range(len(values["controls"]))]
        axes.plot(values["controls"], height, SIGNS["controls"], color=GREY, markersize=4, alpha=0.8)
        axes.plot(values["kept"], [row] * len(values["kept"]), SIGNS["kept"], color=KEPT, markersize=7)
        axes.plot(values["served"], [row], SIGNS["served"], color=SERVED, markersize=7)
    axes.set_xscale("symlog", linthresh=5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xlabel("over-forgotten  ←  deviations from the controls  →  still shows", fontsize=8)
    axes.set_title("the statistic among its controls", fontsize=9.5)


def _roc(axes: Any, finding: Shown, left: float, bottom: float) -> None:
    """Both axes logarithmic: what matters is on the left."""
    band = finding["controls"]["roc"]
    axes.fill_between(
        [max(x, left) for x in band["fpr"]],
        [max(y, bottom) for y in band["low"]],
        [max(y, bottom) for y in band["high"]],
        color=GREY,
        alpha=0.3,
        linewidth=0,
        step="post",
        label=LABELS["controls"],
    )
    for model, colour, dash in (("kept", KEPT, "--"), ("served", SERVED, "-")):
        points = corners(finding[model]["roc"])
        axes.plot(
            [max(x, left) for x, _ in points],
            [max(y, bottom) for _, y in points],
            color=colour,
            linestyle=dash,
            linewidth=1.6,
            drawstyle="steps-post",
            label=LABELS[model],
        )
    axes.plot([left, 1], [left, 1], color=GREY, linewidth=0.8, linestyle=":", label="guessing")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, 1)
    axes.set_ylim(bottom, 1.05)
    axes.set_xlabel("false positive rate", fontsize=8)
    axes.set_ylabel("true positive rate", fontsize=8)
    axes.set_title(f"{finding['attack']}: {finding['outcome']}", fontsize=9.5)


def corners(roc: Shown) -> list[tuple[float, float]]:
    """Where the curve rises, and its end: all that a picture in steps needs."""
    points = list(zip(roc["fpr"], roc["tpr"], strict=True))
    rises = [new for old, new in pairwise(points) if new[1] > old[1]]
    return [points[0], *rises, points[-1]]
