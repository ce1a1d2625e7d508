"""A comparison of methods as one HTML file that stands alone, and as tables for a notebook."""

from __future__ import annotations

import json

from unknot.report import svg
from unknot.report.cells import Shown
from unknot.report.compared import Part, called, guarantees, notes, parts, short, title, window, wrong
from unknot.report.html import COLOURS, Html, details, document, element, joined, notice, table
from unknot.report.html import code as listing

DASHES = (None, "7 3", "7 3 2 3", "2 3", "12 3", "5 2 1 2", "1 2", "9 3 3 3")
"""A line a method: told apart without its colour."""


def page(comparison: Shown) -> str:
    """What went wrong, the tables, the pictures, how to read them, and what is needed to repeat it."""
    head = f"{comparison['experiment']}: {len(comparison['methods'])} methods compared"
    drawn = [method for method in comparison["methods"] if method["failed"] < method["seeds"]]
    pictures = [element("h2", "Pictures"), _over_time(comparison), _paid(comparison)] if drawn else []
    return document(
        head,
        element("h1", head),
        element("p", title(comparison), class_="soft"),
        *(notice(f"{who}: {text}", "bad") for who, text in wrong(comparison)),
        element("h2", "Figures"),
        tables(comparison),
        *pictures,
        element("h2", "Every run"),
        _runs(comparison),
        details("The experiment", listing(json.dumps(comparison["settings"], indent=1))),
        style=svg.STYLE,
    )


def tables(comparison: Shown) -> Html:
    """The figures of every method, what they mean, what each promises."""
    promises = [element("p", element("b", f"{who}: "), text) for who, text in guarantees(comparison)]
    reading = element("p", " ".join(notes(comparison)), class_="soft small")
    return joined([*(_table(comparison, part) for part in parts(comparison)), *promises, reading])


def _table(comparison: Shown, part: Part) -> Html:
    rows = [
        [
            method["method"],
            *(
                element("b", column.cells[row]) if column.best == row else column.cells[row]
                for column in part.columns
            ),
        ]
        for row, method in enumerate(comparison["methods"])
    ]
    numbers = [place for place, column in enumerate(part.columns, start=1) if not column.left]
    heads = ["method", *(column.head for column in part.columns)]
    return joined([element("h3", part.title), table(heads, rows, numbers)])


def _over_time(comparison: Shown) -> Html:
    """The metric over simulated time, a line a method."""
    factor = _factor(comparison)
    several = len(comparison["seeds"]) > 1
    left, right = window(comparison)
    lines, bands, entries, moments, values = [], [], [], list[float](), list[float]()
    for place, method in enumerate(comparison["methods"]):
        curve, tint = method["curve"], svg.colour(place)
        if curve is None:
            continue
        points = [
            (at, *(factor * value for value in row))
            for at, *row in zip(*(curve[name] for name in ("at", "mean", "low", "high")), strict=True)
            if left is None or right is None or left <= at <= right
        ]
        moments += [at for at, *_ in points]
        values += [value for _, *row in points for value in row]
        lines.append(
            svg.Line(
                [(at, mean) for at, mean, *_ in points],
                tint,
                method["method"],
                thick=2,
                steps=True,
                dash=DASHES[(place + place // COLOURS) % len(DASHES)],
            )
        )
        if several:
            bands.append(svg.Band([(at, low, high) for at, _, low, high in points], tint, steps=True))
        entries.append(("line", tint, method["method"]))
    since = "simulated seconds since the first erasure" if comparison["erasures"] else "simulated seconds"
    most = 100.0 if comparison["share"] else None
    chart = svg.Chart(
        svg.Axis(since, min(moments, default=0.0), max(moments, default=1.0)),
        svg.Axis.over(called(comparison), values, most=most),
        lines,
        bands,
        marks=[svg.Mark(0.0, "▾", "the first erasure")] if comparison["erasures"] else [],
        about=f"{comparison['metric']} of the served model over simulated time, a line a method",
    )
    said = f"{called(comparison)} of the served model" + (
        "; the bands are from the least to the greatest of the seeds." if several else "."
    )
    return svg.chart_figure(
        chart, said + (" ▾ the first erasure." if comparison["erasures"] else ""), entries
    )


def _paid(comparison: Shown) -> Html:
    """How good the model is right after a request, by what was trained before any."""
    factor = _factor(comparison)
    extra = any(method["stats"]["extra_training"] for method in comparison["methods"])
    cost = "extra_training" if extra else "client_epochs_before"
    figure = "after" if comparison["erasures"] else "final"
    dots, entries, hints = list[svg.Dot](), [], []
    found = [(place, method) for place, method in enumerate(comparison["methods"]) if method["stats"][figure]]
    far = max((method["stats"][cost]["mean"] for _, method in found if method["stats"][cost]), default=1.0)
    for place, method in found:
        x, y = method["stats"][cost], method["stats"][figure]
        if x is None:
            continue
        spread = (x["std"] or 0.0, factor * (y["std"] or 0.0))
        across, up = x["mean"], factor * y["mean"]
        while any(abs(dot.x - across) < far / 80 and abs(dot.y - up) < 1.5 for dot in dots):
            across += far / 60
        name = f"{method['method']} ({short(method['guarantee'])})"
        beside = method["method"] if place >= COLOURS else ""  # then another has the same colour
        dots.append(svg.Dot(across, up, svg.colour(place), beside, spread))
        entries.append(("dot", svg.colour(place), name))
        hints.append((across, up, name))
    ends = [end for dot in dots for end in (dot.y - dot.spread[1], dot.y + dot.spread[1])]
    when = "right after the request" if comparison["erasures"] else "at the end"
    paid = "training before any request, × plain training" if extra else "client epochs before any request"
    chart = svg.Chart(
        svg.Axis.over(paid, [dot.x + dot.spread[0] for dot in dots], zero=True),
        svg.Axis.over(f"{called(comparison)}, {when}", ends, most=100.0 if comparison["share"] else None),
        dots=dots,
        hints=hints,
        about=f"{comparison['metric']} {when} by the training before any request",
    )
    said = (
        "What is paid before any request, and what is had of it. Dots that would coincide lie side by side."
    )
    return svg.chart_figure(chart, said, entries)


def _runs(comparison: Shown) -> Html:
    """The figures of every single run."""
    heads = ["method", "seed", "before", "right after", "at the end", "rounds to regain it", "model"]
    rows = []
    for row in comparison["rows"]:
        values = [_shown(comparison, row[name]) for name in ("before", "after", "final")]
        back = "" if row["regained_rounds"] is None else row["regained_rounds"]
        model = element("code", row["model"]) if row["model"] else row["error"]
        rows.append([row["method"], row["seed"], *values, back, model])
    return table(heads, rows, range(1, 7))


def _shown(comparison: Shown, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if comparison["share"] else f"{value:.4g}"


def _factor(comparison: Shown) -> float:
    return 100.0 if comparison["share"] else 1.0
