"""Playing the games of a reproduction: every draw at once, a record a draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from unknot.incentive import (
    RANGES,
    READINGS,
    Crowd,
    Game,
    Setting,
    at_rate,
    by_clients,
    by_rate,
    compare,
    play,
    settling,
    stable_corners,
)
from unknot.incentive.game import Floats
from unknot.reproduce import record_file, records
from unknot.reproduce.games import GameReproduction, Sweep
from unknot.reproduce.origin import origin

DIGITS = 6  # behind the point, of what is kept: totals are near 900, and level within 0.001


@dataclass(frozen=True)
class GameRecord:
    """What is kept of a draw: its numbers, and by panel and line what came out along the panel."""

    key: str
    config: Mapping[str, Any]
    numbers: Mapping[str, Any]
    values: Mapping[str, Mapping[str, Sequence[float]]]
    """One number where it is the same all along."""
    stable: int
    """All-or-nothing assignments that are stable equilibria."""
    seconds: float
    machine: Mapping[str, records.Word]
    commit: str | None
    clean: bool | None
    made: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def play_draws(
    plan: GameReproduction,
    file: Path,
    draws: Sequence[int],
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Play the draws that are not yet in the file, all at once, and put their records there."""
    there = found_draws(plan, file, draws)
    if waiting := [draw for draw in draws if draw not in there]:
        tell(f"{len(waiting)} of {len(draws)} draws")
        record_file.keep(file, *(record.to_dict() for record in played_now(plan, waiting)))
    return file


def found_draws(plan: GameReproduction, file: Path, draws: Sequence[int]) -> dict[int, GameRecord]:
    """The records of a file by draw: those only that fit the plan today."""
    done = read_draws(plan, file)
    found = {draw: done[draw_key(draw)] for draw in draws if draw_key(draw) in done}
    return {draw: record for draw, record in found.items() if record.config == plan.config(draw)}


def read_draws(plan: GameReproduction, file: Path) -> dict[str, GameRecord]:
    """All records of a file by key."""
    found = {}
    for key, item in record_file.kept(file).items():
        with records.sound(file, key):
            found[key] = msgspec.convert(item, GameRecord)
    return found


def played_now(plan: GameReproduction, draws: Sequence[int]) -> list[GameRecord]:
    """Records of these draws, of which nothing is kept yet."""
    start = time.perf_counter()
    game, crowd, begin = plan.drawn(draws)
    table = _Table(game, crowd, begin, plan.setting)
    found = {panel.name: SWEEPS[panel.over](table, panel) for panel in plan.panels}
    stable = [stable_corners(game.pick(i)) for i in range(len(draws))]
    seconds = (time.perf_counter() - start) / len(draws)
    machine = {**records.machine("cpu"), "numpy": np.__version__}
    return [
        GameRecord(
            key=draw_key(draw),
            config=plan.config(draw),
            numbers={name: getattr(game, name)[i].round(DIGITS).tolist() for name in RANGES},
            values={
                panel.name: {
                    line.name: _short(found[panel.name][line.name][:, i])
                    for line in plan.lines
                    if line.name in found[panel.name]
                }
                for panel in plan.panels
            },
            stable=stable[i],
            seconds=round(seconds, 4),
            machine=machine,
            **vars(origin()),
        )
        for i, draw in enumerate(draws)
    ]


@dataclass(frozen=True)
class _Table:
    """What is played: the games of all draws, their clients, where they begin."""

    game: Game
    crowd: Crowd
    start: Floats
    setting: Setting


def _over_periods(table: _Table, panel: Sweep) -> dict[str, Floats]:
    outcomes = compare(table.game, table.crowd, table.setting.periods, table.start, READINGS)
    return {name: outcome.utilities for name, outcome in outcomes.items()}


def _over_rates(table: _Table, panel: Sweep) -> dict[str, Floats]:
    return by_rate(table.game, table.crowd, panel.values, panel.period, table.start, READINGS)


def _over_clients(table: _Table, panel: Sweep) -> dict[str, Floats]:
    numbers = [int(value) for value in panel.values]
    return by_clients(table.game, table.crowd.keys, numbers, panel.period, table.start, READINGS)


def _settling(table: _Table, panel: Sweep) -> dict[str, Floats]:
    """When the game has settled, by learning rate; the other policies know no rate."""
    rows = []
    for rate in panel.values:
        totals = table.game.total(play(at_rate(table.game, rate), table.start, panel.period))
        rows.append([float(settling(totals[:, i])) for i in range(totals.shape[1])])
    return {"evolutionary": np.array(rows)}


SWEEPS: Mapping[str, Callable[[_Table, Sweep], dict[str, Floats]]] = {
    "periods": _over_periods,
    "rates": _over_rates,
    "settling": _settling,
    "clients": _over_clients,
}


def _short(values: Floats) -> list[float]:
    kept: list[float] = values.round(DIGITS).tolist()
    return kept[:1] if len(set(kept)) == 1 else kept


def draw_key(draw: int) -> str:
    return f"draw {draw}"
