"""What a record of a draw has that its game does not come to: draws are played again, and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from unknot.reproduce.games import GameReproduction
from unknot.reproduce.limits import made_at
from unknot.reproduce.played import DIGITS, GameRecord, played_now

MOST = 150
"""Draws of a page that are played again: in about two seconds."""
ALIKE = 1e-6  # another machine's last bits


def draw_faults(plan: GameReproduction, found: Mapping[int, GameRecord]) -> Iterator[tuple[str, GameRecord]]:
    """Records that fit the plan and are not what it comes to, with why.

    Of more than `MOST`, so many are played again, evenly from first to last.
    """
    draws = list(found)
    if len(draws) > MOST:
        draws = [draws[round(i)] for i in np.linspace(0, len(draws) - 1, MOST)]
    again = dict(zip(draws, played_now(plan, draws) if draws else (), strict=True))
    for draw, record in found.items():
        words = [*_own(record), *(_otherwise(record, again[draw]) if draw in again else ())]
        if words:
            yield "; ".join(words), record


def _own(record: GameRecord) -> Iterator[str]:
    if record.seconds < 0:
        yield f"it took {record.seconds:g} seconds"
    if words := made_at(record.made):
        yield words


def _otherwise(record: GameRecord, again: GameRecord) -> Iterator[str]:
    """Where the numbers are not the draw's, what came out of them says nothing more."""
    if names := [name for name, row in again.numbers.items() if not _same(record.numbers[name], row)]:
        yield f"its {', '.join(names)} are not what is drawn"
        return
    for panel, rows in again.values.items():
        kept = record.values[panel]
        if names := [name for name, row in rows.items() if not _same(kept[name], row)]:
            yield f"played again, it has other values of {panel} ({', '.join(names)})"
    if record.stable != again.stable:
        yield "played again, it has another number of stable equilibria"


def _same(kept: Sequence[float], row: Sequence[float]) -> bool:
    """One number stands for as many as there are places."""
    return bool(np.allclose(np.asarray(kept, float), np.asarray(row, float), rtol=ALIKE, atol=10**-DIGITS))
