"""A comparison of methods as one HTML file that stands alone, and as tables for a notebook."""

from __future__ import annotations

import json
from collections.abc import Sequence

from unknot.report import svg
from unknot.report.cells import Shown
from unknot.report.compared import Part, called, guarantees, notes, parts, short, title, window, wrong
from unknot.report.html import Html, details, document, element, joined, notice, table
from unknot.report.html import code as listing

PLAIN, PLAIN_DASH = "rfs", "4 3"
"""Plain training: what the others are seen beside, and its line there."""
Row = tuple[float, ...]
"""A moment, then the mean, the least and the greatest at it."""
SHAPES = tuple(svg.SHAPES)
"""A sign a method: told apart without its colour."""


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
    """The metric over simulated time: a small chart a method, on the same axes."""
    factor = _factor(comparison)
    several = len(comparison["seeds"]) > 1
    left, right = window(comparison)
    shown: list[tuple[int, Shown, list[Row]]] = []
    for place, method in enumerate(comparison["methods"]):
        if (curve := method["curve"]) is not None:
            rows = zip(*(curve[name] for name in ("at", "mean", "low", "high")), strict=True)
            scaled: list[Row] = [
                (at, factor * mean, factor * low, factor * high) for at, mean, low, high in rows
            ]
            points = scaled if left is None or right is None else _within(scaled, left, right)
            shown.append((place, method, points))
    moments = [at for *_, points in shown for at, *_ in points]
    values = [value for *_, points in shown for _, *row in points for value in row]
    x = svg.Axis("", min(moments, default=0.0), max(moments, default=1.0))
    y = svg.Axis.over("", values, most=100.0 if comparison["share"] else None)
    plain = next((points for _, method, points in shown if method["method"] == PLAIN), None)
    charts = []
    for place, method, points in shown:
        tint, beside = svg.colour(place), plain if method["method"] != PLAIN else None
        lines = [svg.Line([(at, mean) for at, mean, *_ in points], tint, method["method"], 2.2, True)]
        if beside is not None:
            drawn = [(at, mean) for at, mean, *_ in beside]
            lines.insert(0, svg.Line(drawn, "var(--soft)", PLAIN, 1.2, True, PLAIN_DASH))
        bands = [svg.Band([(at, low, high) for at, _, low, high in points], tint, steps=True)]
        about = f"{comparison['metric']} of the model that {method['method']} serves over simulated time"
        charts.append(
            (
                joined([svg.sign_of(_sign(place, method), tint), method["method"], _promised(method)]),
                svg.Chart(
                    x,
                    y,
                    lines,
                    bands if several else (),
                    _after(place, method, points) if comparison["erasures"] else (),
                    [svg.Mark(moment, "▾", "an erasure") for moment in method["curve"]["asked"]],
                    height=130,
                    left=36,
                    about=about,
                ),
            )
        )
    since = "simulated seconds since the first erasure" if comparison["erasures"] else "simulated seconds"
    said = [f"{called(comparison)} of the served model over {since}, on the same axes for all."]
    if comparison["erasures"]:
        said.append("▾ an erasure; the sign of the method: what is served right after the first.")
    if several:
        said.append("The line is the mean of the seeds, the band goes from the least to the greatest.")
    grey = [("line " + PLAIN_DASH, "var(--soft)", f"{PLAIN}, for comparison")]
    return svg.multiples(charts, " ".join(said), svg.legend(grey) if plain and len(shown) > 1 else None)


def _within(points: Sequence[Row], left: float, right: float) -> list[Row]:
    """Those between two moments; at the first of them, what was so before."""
    before = [(left, *row) for at, *row in points if at < left][-1:]
    return [*before, *(point for point in points if left <= point[0] <= right)]


def _after(place: int, method: Shown, points: Sequence[Row]) -> list[svg.Dot]:
    """What the curve falls to when the first request is served."""
    found = next((mean for at, mean, *_ in points if at >= 0), None)
    dot = svg.Dot(0.0, found or 0.0, svg.colour(place), shape=_shape(place), filled=_exact(method))
    return [] if found is None else [dot]


def _sign(place: int, method: Shown) -> str:
    """As the legend has it: filled where a method is exact."""
    return _shape(place) if _exact(method) else f"open {_shape(place)}"


def _shape(place: int) -> str:
    """Where colours come round again, another one than before."""
    return SHAPES[(place + place // len(SHAPES)) % len(SHAPES)]


def _exact(method: Shown) -> bool:
    return short(method["guarantee"]).startswith("exact")


def _promised(method: Shown) -> Html:
    return element("small", short(method["guarantee"]))


def _paid(comparison: Shown) -> Html:
    """How good the model is right after a request, by what was trained before any."""
    factor = _factor(comparison)
    extra = any(method["stats"]["extra_training"] for method in comparison["methods"])
    cost = "extra_training" if extra else "client_epochs_before"
    figure = "after" if comparison["erasures"] else "final"
    dots, entries = list[svg.Dot](), []
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
        tint = svg.colour(place)
        dots.append(svg.Dot(across, up, tint, "", spread, _shape(place), _exact(method), name))
        entries.append((_sign(place, method), tint, name))
    ends = [end for dot in dots for end in (dot.y - dot.spread[1], dot.y + dot.spread[1])]
    when = "right after the request" if comparison["erasures"] else "at the end"
    paid = "training before any request, × plain training" if extra else "client epochs before any request"
    chart = svg.Chart(
        svg.Axis.over(paid, [dot.x + dot.spread[0] for dot in dots], zero=True),
        svg.Axis.over(f"{called(comparison)}, {when}", ends, most=100.0 if comparison["share"] else None),
        dots=dots,
        about=f"{comparison['metric']} {when} by the training before any request",
    )
    said = (
        "What is paid before any request, and what is had of it. Markers that would coincide lie side by "
        "side; filled: exact."
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
