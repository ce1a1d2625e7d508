"""Accuracy over the rounds as a picture of characters, with the requests marked."""

from __future__ import annotations

from unknot.federation import History

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def curve(history: History, width: int = 64, height: int = 10) -> str:
    """Braille dots, 2 × 4 to a character: one line a round, ▾ above the rounds of requests."""
    points = [(r.round, r.accuracy) for r in history.rounds if r.accuracy is not None]
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    low = min(a for _, a in points)
    high = max(a for _, a in points)
    span = (high - low) or 1.0

    def column(round_: float) -> int:
        return round((round_ - first) / max(last - first, 1) * (2 * width - 1))

    def row(accuracy: float) -> int:
        return round((high - accuracy) / span * (4 * height - 1))

    cells = [[0] * width for _ in range(height)]
    previous: tuple[int, int] | None = None
    for round_, accuracy in points:
        x, y = column(round_), row(accuracy)
        x0, y0 = previous or (x, y)
        steps = max(abs(x - x0), abs(y - y0), 1)
        for i in range(steps + 1):
            cx, cy = x0 + round((x - x0) * i / steps), y0 + round((y - y0) * i / steps)
            cells[cy // 4][cx // 2] |= _DOTS[cy % 4][cx % 2]
        previous = (x, y)
    marks = [" "] * width
    for served in history.served:
        marks[min(max(column(served.round), 0) // 2, width - 1)] = "▾"
    lines = [" " * 7 + "".join(marks).rstrip()]
    for i, line in enumerate(cells):
        label = f"{high:6.1%}" if i == 0 else f"{low:6.1%}" if i == height - 1 else ""
        lines.append(f"{label:>6} " + "".join(chr(0x2800 + cell) for cell in line))
    lines.append(" " * 7 + f"round {first}".ljust(width - len(str(last))) + str(last))
    return "\n".join(lines)
