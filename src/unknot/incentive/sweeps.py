"""The paper's Figure 4: games drawn from its ranges, and how policies do by period, rate and clients.

Everything here takes one game or, with a leading axis, many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.incentive.dynamics import play
from unknot.incentive.game import Floats, Game
from unknot.incentive.policies import BASELINES, Crowd, Policy, compare

# Section 6.1: of each server; of each population, samples of a client.
RANGES: Mapping[str, tuple[float, float]] = {
    "psi": (100, 300),
    "zeta": (10, 20),
    "f_u": (80, 120),
    "f_c": (30, 40),
    "data": (80, 120),
}
AT = 50  # the period of Figures 4b and 4c
CLIENTS = tuple(range(10, 71, 10))  # of Figure 4c
RATES = (0.5, 1.0, 2.0, 4.0)  # times δ: the paper does not tell the four learning rates of Figure 4b
SAME = 1e-3  # of a total utility near 900: the game nears a vertex, and never quite arrives
STEADY = 0.01  # of where a total ends, how far it may be away and still have settled


def drawn(
    keys: Sequence[Key],
    ranges: Mapping[str, tuple[float, float]] = RANGES,
    servers: int = 3,
    populations: int = 3,
    **others: Any,
) -> Game:
    """A game a key, its numbers drawn evenly from ranges; `others` (φ, δ, costs) are for all alike."""
    if missing := [name for name in RANGES if name not in ranges]:
        raise ConfigError(f"{missing[0]} has no range to be drawn from: give the least and the greatest")
    values = {}
    for name, (low, high) in ranges.items():
        ids = np.arange(populations if name == "data" else servers)
        values[name] = np.stack([low + (high - low) * key.child(name).uniform(ids) for key in keys])
    each = (len(keys), populations)
    costs = {n: np.broadcast_to(others.pop(n), each) for n in ("computation", "storage") if n in others}
    return Game.of(**values, **costs, **others)


def by_rate(
    game: Game,
    crowd: Crowd,
    rates: Sequence[float],
    period: int = AT,
    start: Floats | None = None,
    baselines: Mapping[str, Policy] = BASELINES,
) -> dict[str, Floats]:
    """Each policy's total utility in a period, as [rate, ...]. Only the game has a learning rate."""
    begin = game.even if start is None else start
    fixed = compare(game, crowd, period, begin, baselines)
    found = {name: np.stack([outcome.utilities[-1]] * len(rates)) for name, outcome in fixed.items()}
    evolved = [game.total(play(at_rate(game, rate), begin, period)[-1]) for rate in rates]
    return found | {"evolutionary": np.stack(evolved)}


def by_clients(
    game: Game,
    keys: Key | Sequence[Key],
    numbers: Sequence[int],
    period: int = AT,
    start: Floats | None = None,
    baselines: Mapping[str, Policy] = BASELINES,
) -> dict[str, Floats]:
    """Each policy's utility in a period divided by the number of clients, as [number, ...].

    So many clients are divided among the populations; the first have one more where that leaves a rest.
    What `game` has is a client's data, and D_p that of the population (section 4.1): times its clients.
    """
    groups = game.populations
    found: dict[str, list[Floats]] = {name: [] for name in ("evolutionary", *baselines)}
    for many in numbers:
        sizes = [many // groups + (p < many % groups) for p in range(groups)]
        crowd, held = Crowd.of(game, sizes, keys), replace(game, data=game.data * sizes)
        for name, outcome in compare(held, crowd, period, start, baselines).items():
            found[name].append(outcome.utilities[-1] / many)
    return {name: np.stack(values) for name, values in found.items()}


def at_rate(game: Game, rate: float) -> Game:
    return replace(game, delta=np.full_like(game.delta, rate))


def settling(utilities: Floats) -> int:
    """The first period from which a total stays within 1 % of where it ends."""
    away = np.flatnonzero(np.abs(utilities - utilities[-1]) > STEADY * abs(utilities[-1]))
    return int(away[-1]) + 2 if len(away) else 1


def beside(mine: Sequence[float] | Floats, other: Sequence[float] | Floats) -> tuple[int, int, int]:
    """In how many games a total is above another, level with it, below it."""
    gain = np.asarray(mine) - np.asarray(other)
    above, below = int((gain > SAME).sum()), int((gain < -SAME).sum())
    return above, gain.size - above - below, below
