"""What the figures have in common: matplotlib without its global state, sizes, signs and titles."""

from __future__ import annotations

import textwrap
from typing import Any

from unknot.core.errors import ConfigError, install
from unknot.report.cells import Shown

WIDTH, HEIGHT = 3.2, 2.7  # inches an axes: three in a row can still be read at 800 pixels
GREY = "#555555"
MARKS = {
    "erase": ("v", "a client is erased"),
    "samples": ("d", "samples are erased"),
    "join": ("^", "a client joins"),
}
"""Signs of requests: `samples` is an erasure after which its clients stay."""


def load_matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(f"figures need {error.name}: {install('plot')}") from None

    def figure(**options: Any) -> Any:
        made = Figure(**options)  # no pyplot: nothing global is opened, nothing has to be closed
        FigureCanvasAgg(made)
        return made

    settings: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.25,
        "svg.hashsalt": "unknot",
    }
    return figure, matplotlib.rc_context(settings)


def headline(findings: Shown, width: float) -> list[str]:
    """The title of a figure so many inches wide; what it is of stays together, below the rest if need be."""
    title, source = findings["title"], f"({findings['figure']}, {findings['scale']} scale)"
    room = letters_in(width)
    if len(title) + 1 + len(source) <= room:
        return [f"{title} {source}"]
    return [*textwrap.wrap(title, room), source]


def letters_in(width: float) -> int:
    """Letters of a title that so many inches have room for, and a margin."""
    return int(12.5 * width)
