"""What the tables of a reproduction have in common: figures as texts, lines that were not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unknot.core.metrics import METRICS

if TYPE_CHECKING:
    from rich.table import Table

Shown = Mapping[str, Any]
Rows = list[list[str]]

NONE = "–"
DIVERGED = 1e12
"""A perplexity of which nothing is known but that the model has diverged: losses are capped."""
REAL = (
    "*Real seconds*: – where runs went side by side, whose seconds were those of all, or on machines that "
    "differ."
)


def columns(*heads: str) -> Table:
    """A plain table for the terminal; of a head that ends with ``>`` the column is flush right."""
    from rich.table import Table  # what else is here does without

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head.rstrip(">"), justify="right" if head.endswith(">") else "left")
    return table


def percent(stat: Shown | None) -> str:
    """``83.4 ± 0.6``: mean and sample deviation over the seeds, in per cent."""
    if stat is None:
        return NONE
    spread = "" if stat["std"] is None else f" ± {100 * stat['std']:.1f}"
    return f"{100 * stat['mean']:.1f}{spread}"


def count(stat: Shown | None, digits: int = 1) -> str:
    """``16.0 ± 2.0``; where some seeds have none, how many do."""
    if stat is None:
        return "never"
    spread = "" if stat["std"] is None else f" ± {stat['std']:.{digits}f}"
    part = "" if stat["n"] == stat["asked"] else f" ({stat['n']} of {stat['asked']} seeds)"
    whole = stat["std"] is None and stat["mean"] == int(stat["mean"])
    return f"{stat['mean']:.{0 if whole else digits}f}{spread}{part}"


def in_percent(metric: str) -> bool:
    """Whether a metric is a share; of one that is not ours nothing is known."""
    return metric in METRICS and METRICS[metric].share


def shown(value: float | None, metric: str) -> str:
    """``83.4%``; ``0.7312``."""
    if value is None:
        return NONE
    return f"{value:.1%}" if in_percent(metric) else f"{value:.4g}"


def quality(stat: Shown | None, metric: str) -> str:
    """An accuracy in per cent, or a perplexity."""
    if in_percent(metric) or stat is None:
        return percent(stat)
    if abs(stat["mean"]) >= DIVERGED:
        return "diverged"
    if abs(stat["mean"]) >= 1e5:  # a model that has diverged
        return f"{stat['mean']:.0e}"
    digits = 1 if metric == "perplexity" else 3
    spread = "" if stat["std"] is None else f" ± {stat['std']:.{digits}f}"
    return f"{stat['mean']:.{digits}f}{spread}"


def target(threshold: float, metric: str) -> str:
    """``to 75 %``; ``to perplexity 120``."""
    return f"to {100 * threshold:g} %" if in_percent(metric) else f"to {metric} {threshold:g}"


def against(stat: Shown | None, base: Shown | None) -> str:
    """``72 % less``: a mean beside the baseline's; nothing where one of them is not of all seeds."""
    if stat is None or base is None or not base["mean"]:
        return NONE
    if any(part["n"] < part["asked"] for part in (stat, base)):
        return NONE
    saved = 1 - stat["mean"] / base["mean"]
    return f"{abs(100 * saved):.0f} % {'less' if saved >= 0 else 'more'}"


def published_head(name: str, panel: Shown) -> str:
    """``published (FEMNIST, to 60 %)``: the paper's column, and what it is of if that was not run."""
    return f"{name} ({panel['published_for']})" if panel["published_for"] else name


def not_run(panel: Shown, width: int) -> Rows:
    """Rows of lines of which there is the paper's figure alone."""
    run = {line["name"] for line in panel["lines"]}
    rows = [[panel["labels"][n], "not run", told] for n, told in panel["published"].items() if n not in run]
    return [[*row, *[""] * (width - len(row))] for row in rows]


def markdown_table(header: Sequence[str], rows: Rows) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(header), "|" + "---|" * len(header), *(line(row) for row in rows), ""]
