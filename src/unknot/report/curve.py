"""The main metric as a picture of characters, with the requests marked."""

from __future__ import annotations

import math
from collections.abc import Iterator

from unknot.federation import History, Round
from unknot.federation.events import value_of
from unknot.report.activity import served_curve

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def curve(history: History, width: int = 64, height: int = 10) -> str:
    """Braille dots, 2 × 4 to a character, ▾ above the requests; what each did at once is shown where it came.

    By round; over simulated time where there are several lanes, since their rounds interleave.
    """
    by_time = len({record.lane for record in history.rounds}) > 1
    points = served_curve(history) if by_time else list(_by_round(history))
    points = [(at, value) for at, value in points if math.isfinite(value)]
    if len({at for at, _ in points}) < 2:
        return ""
    first, last = (0.0, history.time) if by_time else (points[0][0], points[-1][0])
    low = min(a for _, a in points)
    high = max(a for _, a in points)
    span = (high - low) or 1.0

    def column(at: float) -> int:
        return round((at - first) / ((last - first) or 1) * (2 * width - 1))

    def row(value: float) -> int:
        return round((high - value) / span * (4 * height - 1))

    cells = [[0] * width for _ in range(height)]
    previous: tuple[int, int] | None = None
    for at, value in points:
        x, y = column(at), row(value)
        x0, y0 = previous or (x, y)
        steps = max(abs(x - x0), abs(y - y0), 1)
        for i in range(steps + 1):
            cx, cy = x0 + round((x - x0) * i / steps), y0 + round((y - y0) * i / steps)
            cells[cy // 4][cx // 2] |= _DOTS[cy % 4][cx % 2]
        previous = (x, y)
    marks = [" "] * width
    for served in history.served:
        marks[min(max(column(served.time if by_time else served.round), 0) // 2, width - 1)] = "▾"
    lines = [" " * 7 + "".join(marks).rstrip()]
    for i, line in enumerate(cells):
        label = history.metric.shown(high if i == 0 else low) if i in (0, height - 1) else ""
        lines.append(f"{label:>6} " + "".join(chr(0x2800 + cell) for cell in line))
    start, end = ("0 s", _seconds(last)) if by_time else (f"round {first}", str(last))
    lines.append(" " * 7 + start.ljust(width - len(end)) + end)
    return "\n".join(lines)


def _by_round(history: History) -> Iterator[tuple[int, float]]:
    """The main metric after each round, before a request and right after it."""
    for event in history.events:
        for scores in (event.scores,) if isinstance(event, Round) else (event.before, event.after):
            value = value_of(scores)
            if value is not None:
                yield event.round, value


def _seconds(time: float) -> str:
    return f"{time:.0f} s" if time >= 10 else f"{time:.2g} s"
