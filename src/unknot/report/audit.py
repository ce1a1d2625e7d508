"""An audit on one page: a table for people, JSON for programs, the ROC by matplotlib."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unknot.report.plots import COLOURS, DASHES, GREY, load_matplotlib
from unknot.report.summary import share

Shown = Mapping[str, Any]
MODELS = ("kept", "served", "control")
MEANING = {
    "kept": "kept: nobody forgot anything",
    "served": "served after the erasure",
    "control": "control: retrained without it",
}
BAR: dict[str, Any] = {"linewidth": 3.5, "alpha": 0.55, "solid_capstyle": "butt"}
STYLES = {"flagged": "bold red", "passed": "bold green", "no power": "bold yellow"}


def to_json(audit: Shown) -> str:
    return json.dumps(audit)


def tables(audit: Shown) -> RenderableType:
    """The attacks, what else sets the models apart, and what it comes to."""
    about = (
        f"{audit['experiment']}: {audit['erased']} erased, {audit['members']} samples; "
        f"{audit['others']} others; {audit['shadows']} shadow models"
    )
    return Group(Text(about), _attacks(audit), Text(""), _divergence(audit), Text(""), conclusion(audit))


def marks(found: Shown) -> RenderableType:
    """Who answers to the mark that the erased clients' samples bore."""
    table = Table("model", "marked test samples taken for the target")
    for model in MODELS:
        table.add_row(MEANING[model], _estimate(found["answers"][model]))
    said = {
        "flagged": "what is served still answers to the mark.",
        "passed": "what is served answers to it no more than a model that never saw it.",
        "no power": "not even the model that was kept answers to it. This shows nothing.",
    }
    about = f"{found['experiment']}: {found['erased']} erased, all of it marked as class {found['target']}"
    verdict = found["verdict"]
    return Group(Text(about), table, Text.assemble((f"{verdict}: ", STYLES[verdict]), said[verdict]))


def conclusion(audit: Shown) -> Text:
    """One sentence that does not promise more than the audit holds."""
    verdict = audit["verdict"]
    found = [f"{f['attack']} ({', '.join(f['flagged'])})" for f in audit["findings"] if f["flagged"]]
    able = [f["attack"] for f in audit["findings"] if f["verdict"] != "no power"]
    if verdict == "flagged":
        text = f"the erased data shows, by {'; '.join(found)}."
    elif verdict == "passed":
        text = f"no attack tells it from the control; {', '.join(able)} would have, had it been kept."
    else:
        text = "the attacks find the erased data not even where it was kept. This shows nothing."
    if audit["same"]:
        text += " The served model is the control, bit for bit."
    return Text.assemble((f"{verdict}: ", STYLES[verdict]), text)


def _attacks(audit: Shown) -> Table:
    table = Table("attack", "model")
    for heading in ("AUC", "TPR at 1 %", "TPR at 0.1 %", "F1"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for finding in audit["findings"]:
        for model in MODELS:
            figures, last = finding[model], model == MODELS[-1]
            tpr = figures["tpr"]
            verdict = finding["verdict"] if model == "served" else ""
            table.add_row(
                finding["attack"] if model == MODELS[0] else "",
                model,
                _estimate(figures["auc"]),
                _estimate(tpr["0.01"], "too few others"),
                _estimate(tpr["0.001"], "too few others"),
                _estimate(figures.get("f1")),
                Text(verdict, style=STYLES.get(verdict, "")),
                end_section=last,
            )
    return table


def _divergence(audit: Shown) -> Table:
    table = Table("model", "erased data", "forgetting error", "test data", "‖w − control‖", "KL", "agreement")
    for column in table.columns[1:]:
        column.justify = "right"
    for model in MODELS:
        found = audit["divergence"][model]
        distance = "–" if found["distance"] is None else f"{found['distance']:.3f}"
        table.add_row(
            model,
            share(found["erased"]),
            f"{100 * found['forgetting_error']:+.1f} points",
            share(found["test"]),
            distance,
            f"{found['kl']:.4f}",
            share(found["agreement"]),
        )
    return table


def _estimate(shown: Shown | None, missing: str = "–") -> str:
    if shown is None:
        return missing
    return f"{shown['value']:.3f} [{shown['low']:.3f}, {shown['high']:.3f}]"


def draw(audit: Shown, file: str | Path) -> None:
    """The ROC of each attack, both axes logarithmic: what matters is on the left."""
    figure_of, style = load_matplotlib()
    findings = audit["findings"]
    columns = min(len(findings), 3)
    rows = -(-len(findings) // columns)
    least = 1 / audit["others"]
    with style:
        figure = figure_of(figsize=(3.0 * max(columns, 2), 2.9 * rows + 1.0), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, finding in zip(panels.flat, findings, strict=False):
            _panel(axes, finding, least, 1 / audit["members"])
        for axes in panels.flat[len(findings) :]:
            axes.set_axis_off()
        for column in range(columns):
            shown = [axes for axes in panels[:, column] if axes.axison]
            shown[-1].set_xlabel("false positive rate")
            shown[-1].tick_params(labelbottom=True)
        for axes in panels[:, 0]:
            axes.set_ylabel("true positive rate")
        handles = panels.flat[0].get_legend_handles_labels()
        if len(findings) < panels.size:
            panels.flat[-1].legend(*handles, loc="center", frameon=False, fontsize=9)
        else:
            figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        title = f"{audit['experiment']}: {audit['erased']} erased, {audit['members']} samples"
        figure.suptitle(title, fontsize=10.5)
        # No date inside: the same audit gives the same file.
        figure.savefig(file, dpi=200, metadata={"Date": None} if str(file).endswith(".svg") else None)


def _panel(axes: Any, finding: Shown, left: float, bottom: float) -> None:
    looks = dict(zip(MODELS, zip((COLOURS[1], COLOURS[0], COLOURS[6]), DASHES, strict=False), strict=False))
    for place, model in zip((0.0084, 0.01, 0.0119), MODELS, strict=True):  # side by side, at 1 %
        colour, dash = looks[model]
        corners = _corners(finding[model]["roc"])
        axes.plot(
            [max(x, left / 2) for x, _ in corners],
            [max(y, bottom / 2) for _, y in corners],
            color=colour,
            linestyle=dash,
            linewidth=1.5,
            drawstyle="steps-post",
            label=MEANING[model],
        )
        if (tpr := finding[model]["tpr"]["0.01"]) is not None:
            low = max(tpr["low"], bottom / 2)
            axes.plot([place, place], [low, tpr["high"]], color=colour, **BAR)
    axes.plot([left / 2, 1], [left / 2, 1], color=GREY, linewidth=0.8, linestyle=":", label="guessing")
    axes.plot([], [], color=GREY, **BAR, label="at 1 %: the interval of 99 %")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, 1)
    axes.set_ylim(bottom, 1.05)
    axes.set_title(f"{finding['attack']}: {finding['verdict']}", fontsize=9.5)


def _corners(roc: Shown) -> list[tuple[float, float]]:
    """Where the curve rises, and its end: all that a picture in steps needs."""
    points = list(zip(roc["fpr"], roc["tpr"], strict=True))
    rises = [new for old, new in pairwise(points) if new[1] > old[1]]
    return [points[0], *rises, points[-1]]
