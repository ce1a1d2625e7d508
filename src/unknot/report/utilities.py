"""The tables of a reproduction that plays games: utilities over the draws, and the game beside the others."""

from __future__ import annotations

from unknot.report.cells import NONE, Rows, Shown, count

SUBTITLE = "Utilities: mean ± standard deviation over the draws."
MADE = (
    "Each draw is a game of its own, its numbers drawn evenly from the ranges in `[draw]`; draw 3 is the "
    "same on every page that has the same ranges. Mean ± sample standard deviation over the n draws. A "
    "claim *holds* if it is so in more than half of them, by the 95 % interval (Wilson's) of that share, "
    "and *does not hold* if in less. *Above*, *level*, *below*: in how many draws the game's total is so "
    "in the last period; level is within 0.001. *All*: the mean over all periods. *Settled*: the first "
    "period from which a total stays within 1 % of its last; the median. *Falls*, *rises*: in how many "
    "draws it does so from each column to the next. In the figure, lines are means, bands the middle half "
    "of the draws. *One by one*: each client in turn goes where the reward is highest, given those who "
    "chose before it; *highest offer*: all go where the most is paid, whoever else is there."
)
ALONG = {"periods": "period", "rates": "learning rate δ", "settling": "learning rate δ", "clients": "clients"}


def tables(panel: Shown) -> list[tuple[list[str], Rows]]:
    """One of utilities along the panel; over periods, another of how often the game is above the others."""
    if not panel["lines"]:
        return []
    over_periods = panel["over"] == "periods"
    places = [f"{place:g}" for place in panel["places"]]
    ends = ["all", "settled"] if over_periods else ["falls", "rises"]
    header = [ALONG[panel["over"]], *places, *ends, "n"]
    rows: Rows = []
    for line in panel["lines"]:
        if over_periods:
            last = [_cell(line["mean"]), _settled(line["settled"], panel["places"][-1])]
        else:
            last = [str(line["falls"]), str(line["rises"])]
        rows.append([line["label"], *map(_cell, line["cells"]), *last, str(line["draws"])])
    return [(header, rows), *([_beside(panel)] if over_periods else [])]


def _settled(period: float, last: float) -> str:
    """A total that only its last period is like has not settled."""
    return f"not by {last:g}" if period >= last else f"{period:g}"


def _beside(panel: Shown) -> tuple[list[str], Rows]:
    rows = [
        [line["label"], *(str(draws) for draws in line["beside"])]
        for line in panel["lines"]
        if line["beside"] is not None
    ]
    return ["the game against", "above", "level", "below"], rows or [[NONE] * 4]


def _cell(stat: Shown) -> str:
    """``914 ± 106``, ``18.6 ± 2.2``."""
    return count(stat, 0 if abs(stat["mean"]) >= 100 else 1).replace("-", "−")
