"""Charts for pages, in SVG with the page's own colours, so that they follow it from light to dark.

A chart is as wide as the page lets it be: positions are shares of its width, while letters, strokes and
dots keep their size. So it can be read on a telephone as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from unknot.report.html import COLOURS, Html, element, figure, joined

WIDE = 2000
"""Units of the plane that a chart is drawn in, both ways; its bars and lines are at whole ones."""
STYLE = """
.plot { padding: 1.1rem 1rem 1.5rem var(--left, 3rem) } .plot > svg { display: block; overflow: visible }
.plot text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums }
.plot .end { text-anchor: end } .plot .middle { text-anchor: middle }
.plot .grid { stroke: var(--rule); stroke-width: 1; shape-rendering: crispEdges }
.plot .mark { stroke: var(--soft); stroke-width: 1 } .plot .mark.samples { stroke-dasharray: 5 3 }
.plot .mark.join { stroke-dasharray: 2 3 } .plot text.sign { fill: var(--ink); font-weight: 600 }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-linejoin: round }
.plot .value { fill: var(--ink) }
.plot .hit { fill: transparent; stroke: none } .plot .hit:hover { fill: var(--ink) }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17.5rem), 1fr)) }
.multiples .plot { padding: .9rem .6rem 1.6rem var(--left, 3rem) }
.multiples h3 { margin: .5rem 0 0; font-size: .9rem; display: flex; align-items: center; gap: .4rem }
.multiples h3 small { color: var(--soft); font-weight: 400 }
.axis { color: var(--soft); font-size: .8rem } .axis.x { text-align: right; margin: -.2rem 1rem 0 0 }
"""
"""What `document` must have as its style where there are charts."""
Point = tuple[float, float]
SHAPES = {
    "circle": "",
    "square": "-4.6,-4.6 4.6,-4.6 4.6,4.6 -4.6,4.6",
    "up": "0,-5.8 5.6,4.4 -5.6,4.4",
    "diamond": "0,-6.4 6.4,0 0,6.4 -6.4,0",
    "down": "0,5.8 5.6,-4.4 -5.6,-4.4",
    "plus": "-2,-6 2,-6 2,-2 6,-2 6,2 2,2 2,6 -2,6 -2,2 -6,2 -6,-2 -2,-2",
    "cross": "-5,-3 -3,-5 0,-2 3,-5 5,-3 2,0 5,3 3,5 0,2 -3,5 -5,3 -2,0",
    "hexagon": "0,-6 5.2,-3 5.2,3 0,6 -5.2,3 -5.2,-3",
}
"""Signs of dots: their corners, in pixels from the middle."""


def colour(place: int) -> str:
    """The colour of the line at this place; there are `COLOURS` of them."""
    return f"var(--c{place % COLOURS})"


@dataclass(frozen=True)
class Axis:
    """What is measured, from where to where; `log` by its logarithm, for what spans many sizes."""

    title: str
    low: float
    high: float
    log: bool = False
    named: Sequence[tuple[float, str]] | None = None
    """What is written at which value, where it is not the values themselves."""

    @staticmethod
    def over(title: str, values: Iterable[float], *, zero: bool = False, most: float | None = None) -> Axis:
        """An axis that holds these, with some room; from 0 where asked, and no higher than `most`."""
        known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        if low > 0 and high > 1000 * low and not zero:
            return Axis(title, low, high, log=True)
        room = 0.06 * (high - low) or abs(high) * 0.1 or 1.0
        low = min(low, 0.0) if zero else max(low - room, 0.0) if low >= 0 else low - room
        high += room
        return Axis(title, low, high if most is None else min(high, most))

    def share(self, value: float) -> float:
        """How far along it a value lies, from 0 to 1."""
        low, high, at = (
            (math.log(max(v, 1e-300)) for v in (self.low, self.high, value))
            if self.log
            else (self.low, self.high, value)
        )
        return min(max((at - low) / (high - low), 0.0), 1.0) if high > low else 0.0

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values on it, at most so many, as they are written."""
        if self.named is not None:
            return list(self.named)
        if self.log:
            least, top = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            apart = max(1, -(-(top - least + 1) // most))
            return [(10.0**power, f"{10.0**power:g}") for power in range(least, top + 1, apart)]
        span = self.high - self.low
        if not span > 0 or not math.isfinite(span):
            return [(self.low, f"{self.low:g}")]
        rough = span / most
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * many for many in (1, 2, 2.5, 5, 10, 20) if span / (size * many) <= most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9) + (step / size == 2.5))
        plain = max(abs(self.low), abs(self.high)) < 1e6 and digits < 6
        return [
            (n * step, f"{n * step:,.{digits}f}" if plain else f"{n * step:.3g}")
            for n in range(first, last + 1)
        ]


@dataclass(frozen=True)
class Line:
    """Points from left to right; not a number breaks it. In `steps` a value stays until the next one."""

    points: Sequence[Point]
    colour: str
    name: str = ""
    thick: float = 1.5
    steps: bool = False
    dash: str | None = None


@dataclass(frozen=True)
class Band:
    """What lies between two lines: at each place the lower and the upper value."""

    edges: Sequence[tuple[float, float, float]]
    colour: str
    name: str = ""
    steps: bool = False


@dataclass(frozen=True)
class Dot:
    """One value of each axis, with what is written beside it, and how far it may be off either way."""

    x: float
    y: float
    colour: str
    name: str = ""
    spread: tuple[float, float] = (0.0, 0.0)
    shape: str = "circle"
    """One of `SHAPES`: told apart without its colour."""
    filled: bool = True
    about: str = ""
    """What it says when it is pointed at."""


@dataclass(frozen=True)
class Mark:
    """A line from top to bottom: something that happened there. `kind` is "erase", "samples" or "join"."""

    x: float
    sign: str
    about: str = ""
    kind: str = "erase"


@dataclass(frozen=True)
class Chart:
    """Lines, bands and dots over two axes."""

    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    bands: Sequence[Band] = ()
    dots: Sequence[Dot] = ()
    marks: Sequence[Mark] = ()
    height: int = 260
    left: int = 48
    """Pixels for what is written beside it: the same for charts that lie below one another."""
    about: str = ""
    """For who does not see it."""
    hints: Sequence[tuple[float, float, str]] = field(default=())
    """Places with a dot that says something when it is pointed at."""

    def draw(self) -> Html:
        across, up = self.x, self.y
        grid = [
            joined(
                [
                    element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"),
                    element("text", text, x=-8, y=y, dy=".32em", class_="end"),
                ]
            )
            for value, text in up.ticks(5)
            for y in [percent(1 - up.share(value))]
        ]
        return joined(
            [
                element("div", up.title, class_="axis") if up.title else "",
                plot(
                    [
                        *grid,
                        *time_marks(across, self.marks),
                        plane(joined([*map(self._band, self.bands), *map(self._line, self.lines)]), WIDE),
                        *map(self._dot, self.dots),
                        *map(self._hint, self.hints),
                        *x_ticks(across),
                    ],
                    self.height,
                    self.left,
                    self.about,
                ),
                element("div", across.title, class_="axis x") if across.title else "",
            ]
        )

    def _at(self, x: float, y: float) -> tuple[int, int]:
        return round(WIDE * self.x.share(x)), round(WIDE * (1 - self.y.share(y)))

    def _line(self, line: Line) -> Html:
        pieces = []
        for finite, run in groupby(line.points, lambda point: math.isfinite(point[1])):
            if finite:
                pieces.append(path(thinned([self._at(*point) for point in run]), line.steps))
        return element(
            "path",
            element("title", line.name) if line.name else None,
            d="".join(pieces),
            style=f"stroke: {line.colour}; stroke-width: {line.thick}",
            stroke_dasharray=line.dash,
        )

    def _band(self, band: Band) -> Html:
        pieces = []
        for finite, run in groupby(
            band.edges, lambda edge: math.isfinite(edge[1]) and math.isfinite(edge[2])
        ):
            if finite:
                edges = list(run)
                low = stairs([self._at(x, a) for x, a, _ in edges], band.steps)
                high = stairs([self._at(x, b) for x, _, b in edges], band.steps)
                pieces.append(path(low, False) + path(high[::-1], False).replace("M", "L", 1) + "Z")
        look = f"fill: {band.colour}; fill-opacity: .18; stroke: none"
        return element("path", d="".join(pieces), style=look)

    def _dot(self, dot: Dot) -> Html:
        x, y = percent(self.x.share(dot.x)), percent(1 - self.y.share(dot.y))
        parts: list[object] = []
        for lean, (dx, dy) in enumerate(((dot.spread[0], 0.0), (0.0, dot.spread[1]))):
            if dot.spread[lean]:
                ends = [(dot.x - dx, dot.y - dy), (dot.x + dx, dot.y + dy)]
                (x1, y1), (x2, y2) = (
                    (percent(self.x.share(a)), percent(1 - self.y.share(b))) for a, b in ends
                )
                parts.append(element("line", x1=x1, y1=y1, x2=x2, y2=y2, style=f"stroke: {dot.colour}"))
        parts.append(
            element(
                "svg",
                element("title", dot.about or dot.name) if dot.about or dot.name else None,
                shape(dot.shape, dot.colour, dot.filled),
                x=x,
                y=y,
                overflow="visible",
            )
        )
        if dot.name:
            right = self.x.share(dot.x) > 0.7  # then its name is on its left, where there is room
            look = "end" if right else None
            parts.append(element("text", dot.name, x=x, y=y, dx=-7 if right else 7, dy="-.6em", class_=look))
        return joined(parts)

    def _hint(self, hint: tuple[float, float, str]) -> Html:
        x, y, text = hint
        at = {"cx": percent(self.x.share(x)), "cy": percent(1 - self.y.share(y))}
        seen = element("circle", r=2.2, class_="value", **at)
        return joined([seen, element("circle", element("title", text), r=5, class_="hit", **at)])


def plot(content: Iterable[object], height: float, left: float, about: str = "") -> Html:
    """The frame of a chart: in it, positions across are shares, and heights are pixels or shares."""
    drawn = element(
        "svg",
        element("title", about) if about else None,
        joined(content),
        width="100%",
        height=height,
        role="img",
        aria_label=about or None,
    )
    return element("div", drawn, class_="plot", style=f"--left: {left:g}px")


def plane(content: object, height: float) -> Html:
    """Paths in whole units, `WIDE` across and `height` down, that stretch to what room there is."""
    box = f"0 0 {WIDE} {height:g}"
    return element("svg", content, width="100%", height="100%", viewBox=box, preserveAspectRatio="none")


def x_ticks(axis: Axis) -> list[Html]:
    return [
        element("text", text, x=percent(axis.share(value)), y="100%", dy="1.5em", class_="middle")
        for value, text in axis.ticks(6)
    ]


def time_marks(axis: Axis, marks: Sequence[Mark], signs: bool = True) -> list[Html]:
    """Where something happened; signs that would touch are one, from the first to the last: 2–4."""
    found: list[Html] = []
    groups: list[list[Mark]] = []
    for mark in marks:
        at = percent(axis.share(mark.x))
        hint = element("title", mark.about) if mark.about else None
        found.append(element("line", hint, x1=at, x2=at, y1=0, y2="100%", class_=f"mark {mark.kind}"))
        if groups and axis.share(mark.x) - axis.share(groups[-1][0].x) < 0.035:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups if signs else ():
        first, last = group[0].sign, group[-1].sign
        said = "; ".join(dict.fromkeys(mark.about for mark in group if mark.about))
        text = first if first == last else f"{first}–{last}"
        hint = element("title", said) if said else None
        at = percent(axis.share(group[0].x))
        found.append(element("text", hint, text, x=at, y=-5, class_="sign middle"))
    return found


def percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def path(points: Sequence[tuple[int, int]], steps: bool) -> str:
    """The `d` of a path through points."""
    if not points:
        return ""
    (x, y), *rest = points
    if not steps:
        return f"M{x} {y}" + "".join(f"L{a} {b}" for a, b in rest)
    found = [f"M{x} {y}"]
    for a, b in rest:
        found.append((f"H{a}" if a != x else "") + (f"V{b}" if b != y else ""))
        x, y = a, b
    return "".join(found)


def stairs(points: Sequence[tuple[int, int]], steps: bool) -> list[tuple[int, int]]:
    """The corners of a line in which a value stays until the next one."""
    if not steps:
        return list(points)
    found: list[tuple[int, int]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of many points at one place across: the first, the extremes in their order, the last."""
    found: list[tuple[int, int]] = []
    for x, run in groupby(points, lambda point: point[0]):
        heights = [y for _, y in run]
        places = sorted({0, heights.index(min(heights)), heights.index(max(heights)), len(heights) - 1})
        found += [(x, heights[place]) for place in places]
    return found


def shape(name: str, tint: str, filled: bool = True) -> Html:
    """One of `SHAPES` around the origin; one that is not filled lets nothing through."""
    look = f"fill: {tint if filled else 'var(--paper)'}; stroke: {tint}; stroke-width: 1.6"
    if name == "circle":
        return element("circle", r=5, style=look)
    return element("polygon", points=SHAPES[name], style=look)


def legend(entries: Iterable[tuple[str, str, str]]) -> Html:
    """What signs mean: (sign, colour, meaning).

    A sign is "line" or "line 7 3" with its dash, "box", "frame", "dot", a shape of `SHAPES` ("open square"
    where it is not filled), or a letter.
    """
    items = [element("li", sign_of(sign, tint), element("span", meaning)) for sign, tint, meaning in entries]
    return element("ul", joined(items), class_="legend")


def sign_of(sign: str, tint: str) -> Html:
    """A sign as a legend has it."""
    fill, stroke = f"fill: {tint}", f"stroke: {tint}; stroke-width: 2; fill: none"
    first, _, rest = sign.partition(" ")
    name = rest if first == "open" else sign
    if first == "line":
        drawn = element("line", x1=0, x2=30, y1=7, y2=7, style=stroke, stroke_dasharray=rest or None)
        return element("svg", drawn, width=30, height=14, aria_hidden="true")
    if name in SHAPES:
        drawn = element("g", shape(name, tint, filled=first != "open"), transform="translate(9 7)")
    else:
        drawn = {
            "box": element("rect", x=2, y=2, width=14, height=10, rx=1.5, style=fill),
            "frame": element("rect", x=3, y=3, width=12, height=8, style=stroke),
            "dot": element("circle", cx=9, cy=7, r=5, style=fill),
        }.get(sign) or element("text", sign, x=9, y=11, text_anchor="middle", font_size=12, style=fill)
    return element("svg", drawn, width=18, height=14, aria_hidden="true")


def multiples(charts: Iterable[tuple[object, Chart]], caption: object = None, signs: object = None) -> Html:
    """Small charts side by side, as many as there is room for, each below its title."""
    drawn = [element("div", element("h3", title), chart.draw()) for title, chart in charts]
    return figure(element("div", joined(drawn), class_="multiples"), caption, signs)


def chart_figure(
    chart: Chart, caption: object = None, legend_of: Iterable[tuple[str, str, str]] = ()
) -> Html:
    """A chart with its legend and what is to be seen in it."""
    entries = list(legend_of)
    return figure(chart.draw(), caption, legend(entries) if entries else None)
