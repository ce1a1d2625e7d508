"""The pictures of a run's page: how good it was, who was at work, who was trained together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from unknot.federation import History
from unknot.federation.events import value_of
from unknot.report import activity, svg
from unknot.report.activity import NOWHERE, Bar, Row
from unknot.report.html import COLOURS, Html, element, figure, joined
from unknot.report.svg import WIDE, Axis, Band, Chart, Dot, Line, Mark, percent
from unknot.report.words import clip, label

INK, SOFT, BAD, PALE, KEPT, PAPER = (
    f"var(--{name})" for name in ("ink", "soft", "bad", "pale", "kept", "paper")
)
NAMED = 40  # rows, and then the clients' names no longer fit
ROWS = 400  # and then it is counted who is at work, not drawn one by one
TALL = 560  # pixels of many rows
HINTS = 300  # points that say their value when they are pointed at
LEAST = 10.0  # points of per cent that an axis spans
LONG = 16  # letters of a client's name
LEVELS = 24  # of a tree
DASHES = (
    "7 2",
    "3 2",
    "9 2 2 2",
    "1.5 2",
    "12 3",
    "5 2 1.5 2",
    "6 4",
    "9 2 2 2 2 2",
)  # of lanes, beside colours
MAPPED = 16  # lanes, and then their map is no longer small
SHAPES = tuple(svg.SHAPES)


@dataclass(frozen=True)
class Sheet:
    """What the pictures of a run have in common: the time, the colours, the room beside them."""

    history: History

    @cached_property
    def time(self) -> Axis:
        return Axis("simulated seconds", 0.0, self.history.time or 1.0)

    @cached_property
    def lanes(self) -> list[str]:
        return activity.lanes(self.history)

    @cached_property
    def rows(self) -> list[Row]:
        return activity.rows(self.history)

    @cached_property
    def called(self) -> list[str]:
        """By row, the client's name, cut where it is long, or its number."""
        return [clip(activity.called(self.history, row.client), LONG) for row in self.rows]

    @cached_property
    def left(self) -> int:
        """Pixels for what is written beside a picture."""
        longest = max(map(len, self.called), default=0) if len(self.rows) <= NAMED else 0
        return max(48, 16 + round(6.4 * longest))

    @property
    def lane_word(self) -> str:
        return "clusters" if all(name.startswith("cluster") for name in self.lanes) else "lanes"

    def colour(self, lane: str) -> str:
        return svg.colour(self.lanes.index(lane)) if lane in self.lanes else SOFT

    @cached_property
    def marks(self) -> list[Mark]:
        """The requests by their numbers."""
        return [
            Mark(served.time, str(i), f"{i}: {self.history.told(served)}", activity.sign(served))
            for i, served in enumerate(self.history.served, 1)
            if served.clients
        ]

    def request_signs(self) -> list[tuple[str, str, str]]:
        return [("1", INK, "a request, by its number below")] if self.marks else []


# How good it was.


def quality(sheet: Sheet) -> Html | None:
    """The served model's main metric over time, and each lane's own; None where nothing was measured."""
    history, metric = sheet.history, sheet.history.metric
    points = _scaled(history, activity.served_curve(history))
    if not any(math.isfinite(value) for _, value in points):
        return None
    own = {name: _scaled(history, curve) for name, curve in activity.own_curves(history).items()}
    factor = 100 if metric.share else 1
    edges = [(time, factor * low, factor * high) for time, low, high in activity.band(history)]
    shown = [value for curve in (points, *own.values()) for _, value in curve]
    low, high, all_of_it = _within(shown, everything=metric.share)
    split = "validation" if any("validation" in one.scores for one in history.rounds) else "test"
    if metric.share:  # a tenth of a point is not to look like much
        low, high = min(low, max(high - LEAST, 0.0)), max(high, min(low + LEAST, 100.0))
    axis = Axis.over(f"{split} {metric.axis}", [low, high], most=100.0 if metric.share else None)
    drawn = own if len(own) <= COLOURS else {}
    end = history.time
    dashes = {name: DASHES[place % len(DASHES)] for place, name in enumerate(drawn)}
    lines = [
        Line(_held(curve, end), sheet.colour(name), name, 1.3, True, dashes[name] or None)
        for name, curve in drawn.items()
    ]
    bands = [Band([*edges, (end, *edges[-1][1:])], SOFT, steps=True)] if edges else []
    signs = [
        ("line", INK, "served model"),
        *((f"line {dashes[name]}".strip(), sheet.colour(name), name) for name in drawn),
    ]
    signs += [("box", SOFT, f"{sheet.lane_word}, worst to best")] if edges and not drawn else []
    # Closest to the point, so that it can be pointed at.
    hints = [(time, value, _told(history, time, value)) for time, value in points]
    chart = Chart(
        sheet.time,
        axis,
        [*lines, Line(_held(points, end), INK, "served model", 2.2, True)],
        bands,
        marks=sheet.marks,
        left=sheet.left,
        about=f"{split} {metric.name} of the served model over {history.time:.4g} simulated seconds",
        hints=hints if len(hints) <= HINTS else (),
    )
    caption = "A model stays as good as it was until it is measured again; dots: where it was."
    if not all_of_it:
        caption += " What lies far from the rest is drawn at the edge."
    return svg.chart_figure(chart, caption, [*signs, *sheet.request_signs()])


def _scaled(history: History, points: Iterable[svg.Point]) -> list[svg.Point]:
    """As the axis has them: shares in per cent."""
    return [(time, 100 * value if history.metric.share else value) for time, value in points]


def _held(points: Sequence[svg.Point], end: float) -> list[svg.Point]:
    """With the last value until the end."""
    return [*points, (end, points[-1][1])] if points else []


def _told(history: History, time: float, value: float) -> str:
    return f"{history.metric.shown(value / 100 if history.metric.share else value)} at {time:.4g} s"


def _within(values: Sequence[float], everything: bool) -> tuple[float, float, bool]:
    """From where to where most of them lie, and whether that is all: one that diverged hides the others."""
    known = sorted(value for value in values if math.isfinite(value))
    if everything:
        return known[0], known[-1], True
    low, high = known[len(known) // 10], known[-1 - len(known) // 10]
    room = 5 * (high - low)
    kept = [value for value in known if low - room <= value <= high + room] if room else known
    return kept[0], kept[-1], len(kept) == len(known)


# Who was at work.


def timeline(sheet: Sheet) -> Html | None:
    """A row a client and a bar a trip; of very many clients, how many were at work."""
    if not sheet.rows:
        return None
    return _crowd(sheet) if len(sheet.rows) > ROWS else _Timeline(sheet).draw()


def _crowd(sheet: Sheet) -> Html:
    history = sheet.history
    changes: list[tuple[float, int]] = []
    for bar in activity.bars(history, sheet.rows):
        changes += [(bar.start, 1), (bar.end, -1)]
    points, many = [(0.0, 0.0)], 0
    for time, change in sorted(changes):
        many += change
        points.append((time, float(many)))
    axis = Axis.over("clients at work", [value for _, value in points], zero=True)
    edges = [(time, 0.0, value) for time, value in points]
    tint = svg.colour(0)
    chart = Chart(
        sheet.time,
        axis,
        [Line(points, tint, "", 1.0, True)],
        [Band(edges[:: max(1, len(edges) // WIDE)], tint, steps=True)],
        marks=sheet.marks,
        height=160,
        left=sheet.left,
        about=f"how many of {len(sheet.rows)} clients were at work at a time",
    )
    return svg.chart_figure(chart, None, sheet.request_signs())


@dataclass(frozen=True)
class _Timeline:
    sheet: Sheet

    @cached_property
    def thick(self) -> float:
        """Pixels of a row."""
        many = len(self.sheet.rows)
        return 14.0 if many <= NAMED else min(max(TALL / many, 1.5), 9.0)

    @cached_property
    def headed(self) -> bool:
        return len({row.lane for row in self.sheet.rows}) > 1

    @cached_property
    def tops(self) -> list[float]:
        """Of each row, downwards; a lane has its name above its first one."""
        found, at, before = [], 0.0, None
        for row in self.sheet.rows:
            if row.lane != before and self.headed:
                at += 20 if before is None else 24
            found.append(at)
            at, before = at + self.thick, row.lane
        return found

    @cached_property
    def spans(self) -> dict[str, tuple[float, float]]:
        found: dict[str, tuple[float, float]] = {}
        for row, top in zip(self.sheet.rows, self.tops, strict=True):
            found[row.lane] = (found.get(row.lane, (top,))[0], top + self.thick)
        return found

    def draw(self) -> Html:
        sheet, history = self.sheet, self.sheet.history
        height = math.ceil(self.tops[-1] + self.thick)
        bars = activity.bars(history, sheet.rows)
        groups: dict[tuple[str, str], list[Bar]] = {}
        for bar in bars:
            groups.setdefault((bar.kind, sheet.rows[bar.row].lane if bar.kind == "lane" else ""), []).append(
                bar
            )
        gone = activity.gone(history, sheet.rows)
        erased = [Bar(item.row, "gone", item.start, item.end) for item in gone]
        drawn = [self._bars(erased, PALE, 1.0)] if erased else []
        for (kind, lane), alike in groups.items():
            if kind != "cut":
                tint = {"apart": SOFT, "joint": INK, "visit": BAD}.get(kind) or sheet.colour(lane)
                drawn.append(self._bars(alike, tint, 0.72 if self.thick > 3 else 1.0))
        cut = groups.get(("cut", ""), [])
        content = [
            svg.plane(joined([*drawn, self._frames(cut)] if cut else drawn), height),
            *svg.time_marks(sheet.time, sheet.marks),
            *self._restarts(),
            *self._parts(),
            *self._names(),
            *svg.x_ticks(sheet.time),
        ]
        about = f"who was at work when: {len(sheet.rows)} rows, {len(bars)} trips"
        picture = joined(
            [
                svg.plot(content, height, sheet.left, about),
                element("div", sheet.time.title, class_="axis x"),
            ]
        )
        return figure(picture, None, svg.legend(self._legend({bar.kind for bar in bars}, bool(gone))))

    def _bars(self, bars: Sequence[Bar], tint: str, share: float) -> Html:
        """All of one look in one path: along each row, moves and strokes in whole units."""
        by_row: dict[int, list[tuple[int, int]]] = {}
        for bar in bars:
            by_row.setdefault(bar.row, []).append((self._x(bar.start), self._x(bar.end)))
        pieces = []
        for row, spans in by_row.items():
            at = 0
            pieces.append(f"M0 {self.tops[row] + self.thick / 2:g}")
            for start, end in _merged(spans, max(2, len(self.sheet.rows) // 50)):
                length = end - start - (3 if end - start > 12 else 0)  # a gap before the next one
                pieces.append(f"m{start - at} 0h{length}")
                at = start + length
        return element(
            "path", d="".join(pieces), style=f"stroke: {tint}; stroke-width: {share * self.thick:.1f}"
        )

    def _frames(self, bars: Sequence[Bar]) -> Html:
        high = max(0.72 * self.thick - 1, 1)
        pieces = [
            f"M{self._x(bar.start)} {self.tops[bar.row] + (self.thick - high) / 2:g}"
            f"h{max(self._x(bar.end) - self._x(bar.start), 2)}v{high:g}"
            f"H{self._x(bar.start)}z"
            for bar in bars
        ]
        return element("path", d="".join(pieces), style=f"fill: {PAPER}; stroke: {BAD}; stroke-width: 1.2")

    def _x(self, time: float) -> int:
        return round(WIDE * self.sheet.time.share(time))

    def _restarts(self) -> list[Html]:
        found = []
        for time, lane in activity.restarts(self.sheet.history):
            if lane in self.spans:
                top, bottom = self.spans[lane]
                at = percent(self.sheet.time.share(time))
                hint = element("title", f"{lane} begins again")
                look = f"stroke: {BAD}; stroke-width: 2"
                found.append(element("line", hint, x1=at, x2=at, y1=top, y2=bottom, style=look))
        return found

    def _parts(self) -> list[Html]:
        return [
            element(
                "text",
                "◆",
                x=percent(self.sheet.time.share(part.time)),
                y=self.tops[part.row] + self.thick / 2,
                dy=".34em",
                class_="middle",
                style=f"fill: {BAD}",
            )
            for part in activity.parts(self.sheet.history, self.sheet.rows)
        ]

    def _names(self) -> list[Html]:
        """Clients on the left where they fit, those of whom something was erased in any case; lanes above."""
        erased = activity.erased(self.sheet.history, self.sheet.rows)
        few, last = len(self.sheet.rows) <= NAMED, -99.0
        found = []
        for i, (name, top) in enumerate(zip(self.sheet.called, self.tops, strict=True)):
            if (few or i in erased) and top - last >= 9:
                last = top
                look = f"fill: {BAD}; font-weight: 600" if i in erased else None
                hint = element("title", f"erased: {erased[i]}") if i in erased else None
                y = top + self.thick / 2
                found.append(element("text", hint, name, x=-8, y=y, dy=".34em", class_="end", style=look))
        for lane, (top, _) in self.spans.items() if self.headed else ():
            look = f"fill: {self.sheet.colour(lane)}; font-weight: 600"
            found.append(element("text", lane, x=0, y=top - 6, style=look))
        return found

    def _legend(self, kinds: set[str], gone: bool) -> list[tuple[str, str, str]]:
        """Only what is in this picture."""
        sheet = self.sheet
        first = next((row.lane for row in sheet.rows if row.lane != NOWHERE), NOWHERE)
        signs = {
            "at work": "lane" in kinds and ("box", sheet.colour(first)),
            "profiling": "apart" in kinds and ("box", SOFT),
            "joint round": "joint" in kinds and ("box", INK),
            "last visit": "visit" in kinds and ("box", BAD),
            "called back": "cut" in kinds and ("frame", BAD),
            "begins again": activity.restarts(sheet.history) and ("line", BAD),
            "erased": gone and ("box", PALE),
            "samples erased": activity.parts(sheet.history, sheet.rows) and ("◆", BAD),
        }
        return [*((*sign, name) for name, sign in signs.items() if sign), *sheet.request_signs()]


def _merged(spans: list[tuple[int, int]], near: int) -> list[tuple[int, int]]:
    """From left to right; short ones that all but touch are one, so that many stay few."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        end = max(end, start + 1)
        if found and start - found[-1][1] < near and min(end - start, found[-1][1] - found[-1][0]) < 12:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


# Who was trained together.


def clusters(sheet: Sheet) -> Html | None:
    """The clients of each lane by how long they take; None where there is one lane, or too many to draw.

    How unlike the others a client learned is not on record: it would outlive the client's erasure.
    """
    history, lanes = sheet.history, sheet.lanes
    took = activity.durations(history)
    members = [row for row in sheet.rows if row.lane in lanes and row.client in took]
    if not 1 < len(lanes) <= MAPPED or not members or len(members) > ROWS:
        return None
    gone = {client for served in history.served for client in served.leavers}
    high = max(took.values())
    dots, stacks = [], dict[tuple[str, int], int]()
    for row in members:
        time = took[row.client]
        beside = (row.lane, round(30 * time / high))
        stacks[beside] = stacks.get(beside, 0) + 1  # those that would coincide lie one above the other
        place = lanes.index(row.lane)
        up = -place + 0.12 * ((stacks[beside] + 3) % 7 - 4)
        shape = SHAPES[place % len(SHAPES)]
        about = (
            f"{history.label(row.client)}, {row.lane}: {time:.4g} s{', erased' if row.client in gone else ''}"
        )
        dots.append(
            Dot(time, up, sheet.colour(row.lane), shape=shape, filled=row.client not in gone, about=about)
        )
    names = [(-float(place), lane) for place, lane in enumerate(lanes)]
    chart = Chart(
        Axis.over("simulated seconds that a client takes", [0.0, high], zero=True),
        Axis("", 0.6 - len(lanes), 0.6, named=names),
        dots=dots,
        height=34 * len(lanes) + 10,
        left=max(48, 16 + round(6.4 * max(map(len, lanes)))),
        about=f"{len(members)} clients in {len(lanes)} {sheet.lane_word}, by how long they take",
    )
    work = "time that its profiling took" if history.apart else "mean time of its work"
    caption = f"Each sign is a client, by the {work}; those that would coincide lie apart."
    return svg.chart_figure(chart, caption + (" Open: erased." if gone else ""))


def trees(sheet: Sheet, most: int = 6) -> list[tuple[str, Html]]:
    """The influence tree of each lane that has one, by the lane's name."""
    found = []
    for lane in sorted(sheet.history.nodes, key=activity.natural):
        forest = _Forest.of(sheet.history.nodes[lane])
        if forest is not None:
            found.append((lane, _icicle(sheet, forest)))
    return found[:most]


@dataclass(frozen=True)
class _Forest:
    """Nested sets of clients, laid out side by side: `places` are (level, start, members)."""

    order: tuple[int, ...]
    places: tuple[tuple[int, int, tuple[int, ...]], ...]

    @staticmethod
    def of(nodes: Sequence[tuple[int, ...]]) -> _Forest | None:
        """None where they are not a tree: not nested, or nothing below the root."""
        sets = sorted({frozenset(node) for node in nodes if node}, key=lambda one: (-len(one), sorted(one)))
        if len(sets) < 3 or not all(one <= sets[0] for one in sets):
            return None
        children: dict[frozenset[int], list[frozenset[int]]] = {one: [] for one in sets}
        holder = dict.fromkeys(sets[0], sets[0])
        for one in sets[1:]:
            above = {holder[client] for client in one}
            if len(above) > 1:
                return None
            children[above.pop()].append(one)
            holder |= dict.fromkeys(one, one)
        order: list[int] = []
        places = []
        stack: list[tuple[int, frozenset[int] | int]] = [(0, sets[0])]
        while stack:
            level, item = stack.pop()
            if isinstance(item, int):
                order.append(item)
                continue
            places.append((level, len(order), tuple(sorted(item))))
            alone = item - frozenset().union(*children[item]) if children[item] else item
            below: list[frozenset[int] | int] = [*children[item], *alone]
            below.sort(key=lambda part: part if isinstance(part, int) else min(part), reverse=True)
            stack += [(level + 1, part) for part in below]
        return _Forest(tuple(order), tuple(places))


def _icicle(sheet: Sheet, forest: _Forest) -> Html:
    """The root above, what is within it below it: as wide as it has clients."""
    history, many = sheet.history, len(forest.order)
    depth = max(level for level, _, _ in forest.places)
    high = 26 if depth < 8 else 15
    gone = {client for served in history.served if served.kind == "erase" for client in served.clients}
    boxes = []
    for level, start, members in forest.places:
        if level >= LEVELS or WIDE * len(members) < many:  # too small to be seen
            continue
        spoilt = gone & set(members)
        tint = PALE if spoilt else KEPT
        names = [history.label(one) if history.names else one for one in members]
        held = f"; holds what was erased of {_who(history, sorted(spoilt))}" if spoilt else ""
        who = (
            history.label(members[0]) if len(members) == 1 else f"{len(members)} clients: {label(names, 200)}"
        )
        x, wide = start / many, len(members) / many
        look = f"fill: {tint}; stroke: {PAPER}"
        hint = element("title", f"{who}{held}")
        boxes.append(
            element("rect", hint, x=percent(x), y=high * level, width=percent(wide), height=high, style=look)
        )
        text = str(names[0]) if len(members) == 1 else f"{len(members)}"
        room = 100 if len(text) <= 2 else 60
        if len(text) * many <= room or (len(members) > 1 and wide > 0.05):
            tone = f"fill: {BAD if spoilt else INK}"
            at = percent(x + wide / 2)
            boxes.append(
                element("text", text, x=at, y=high * (level + 0.5), dy=".34em", class_="middle", style=tone)
            )
    signs = [("box", KEPT, "a model of these clients")]
    signs += [("box", PALE, "holds an erased client, or its samples")] if gone & set(forest.order) else []
    rows = min(depth + 1, LEVELS)
    about = f"an influence tree of {many} clients and {len(forest.places)} models"
    caption = (
        "Each box is a model, as wide as it has clients; the uppermost is the one that is served, the lowest "
        "are of one client each. When a client leaves, the models that hold it begin again from the "
        "largest below them that do not."
    )
    return figure(svg.plot(boxes, high * rows, 0, about), caption, svg.legend(signs))


def _who(history: History, clients: Sequence[int]) -> str:
    return ", ".join(history.label(client) for client in clients[:5]) + (", …" if len(clients) > 5 else "")


def own_end(history: History, lane: str) -> float | None:
    """A lane's own value of the main metric as it was last measured."""
    own = (value_of(one.own) for one in reversed(history.rounds) if one.lane == lane)
    return next((value for value in own if value is not None), None)
