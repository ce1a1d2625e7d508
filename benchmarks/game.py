"""The game of incentives: how fast it is, and whether it is better than the baselines, as its paper says.

``python -m benchmarks.game [--draws 100] [--json] [--record FILE]``. One thread; half a minute, two minutes
for 1,000 draws. The exit status is 1 if 1,000 settings of 300 periods, the other policies included, take 5 s
or more. The claims have no limit here: they are counted, at settings drawn evenly from the paper's ranges
(section 6.1). What docs/incentives.md says of them is in docs/results/game.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import record, small
from unknot.core.keys import Key
from unknot.incentive import (
    Crowd,
    Equilibrium,
    Game,
    beside,
    by_rate,
    compare,
    drawn,
    highest_offer,
    optimum,
    settle,
    settling,
    survey,
)
from unknot.incentive.sweeps import RATES, SAME

PERIODS, CLIENTS, LIMIT = 300, 30, 5.0
SETTINGS = 1000  # that are timed
SURVEYED = 20  # games whose equilibria are sought from 200 starts each
DELTAS = tuple(0.001 * factor for factor in RATES)

Floats = NDArray[np.float64]


def speed() -> float:
    keys = [Key.root(0).child("setting", i) for i in range(SETTINGS)]
    game = drawn(keys)
    start = time.perf_counter()
    compare(game, Crowd.of(game, CLIENTS, keys), PERIODS)
    return time.perf_counter() - start


def against(game: Floats, other: Floats) -> dict[str, object]:
    gain = game - other
    lost = -gain[gain < -SAME]
    above, level, below = beside(game, other)
    return {
        "game above": above,
        "same": level,
        "below": below,
        "mean gain": round(float(gain.mean()), 1),
        "mean loss where below": round(float(lost.mean()), 1) if len(lost) else 0.0,
    }


def claims(draws: int) -> dict[str, object]:
    keys = [Key.root(0).child("draw", i) for i in range(draws)]
    game = drawn(keys)
    totals = {
        name: outcome.utilities
        for name, outcome in compare(game, Crowd.of(game, CLIENTS, keys), PERIODS).items()
    }
    last = {name: values[-1] for name, values in totals.items()}
    crowded = highest_offer(game, Crowd.of(game, CLIENTS, keys), 1)[-1]
    last["greedy, all to the highest offer"] = game.total(crowded)
    best = np.array([game.pick(i).total(optimum(game.pick(i), key)) for i, key in enumerate(keys)])
    evolved = last["evolutionary"]
    three = np.max([last[name] for name in ("random", "round_robin", "greedy")], axis=0)
    rest = [settle(game.pick(i), game.pick(i).even) for i in range(draws)]
    settled = [settling(totals["evolutionary"][:, i]) for i in range(draws)]
    rates = by_rate(game, Crowd.of(game, CLIENTS, keys), DELTAS)["evolutionary"].round(6)
    return {
        "draws": draws,
        "mean total in the last period": {name: round(float(v.mean()), 1) for name, v in last.items()}
        | {"optimum": round(float(best.mean()), 1)},
        "mean over all periods": {name: round(float(v.mean()), 1) for name, v in totals.items()},
        "against each": {name: against(evolved, v) for name, v in last.items() if name != "evolutionary"},
        "above all three": int((evolved > three + SAME).sum()),
        "not below any of the three": int((evolved >= three - SAME).sum()),
        "at the optimum": int((evolved >= best - SAME).sum()),
        "greedy at the optimum": int((last["greedy"] >= best - SAME).sum()),
        "settled within 100 periods": int(sum(period <= 100 for period in settled)),
        "median period of settling": float(np.median(settled)),
        "equilibrium": dict(Counter(_sort(place) for place in rest)),
        "equilibrium at the optimum": sum(
            float(game.pick(i).total(place.shares)) >= float(best[i]) - SAME for i, place in enumerate(rest)
        ),
        "mean total in period 50 by δ": dict(
            zip(map(str, DELTAS), (round(float(v.mean()), 1) for v in rates), strict=True)
        ),
        "falls with every δ": int(np.all(np.diff(rates, axis=0) < 0, axis=0).sum()),
        "rises with every δ": int(np.all(np.diff(rates, axis=0) > 0, axis=0).sum()),
        "stable equilibria": stable(game, keys[:SURVEYED]),
    }


def stable(game: Game, keys: Sequence[Key]) -> dict[str, object]:
    """How many each of some games has, found from 200 starts; where the starts end."""
    seen = [survey(game.pick(i), key) for i, key in enumerate(keys)]
    kinds: Counter[str] = Counter()
    for one in seen:
        for place, part in one.reached:
            kinds[_sort(place)] += round(part * one.starts)
    numbers = Counter(sum(place.kind == "stable" for place, _ in one.reached) for one in seen)
    moving = sum(one.moving for one in seen)
    return {"games by number": dict(sorted(numbers.items())), "starts by end": dict(kinds), "moving": moving}


def _sort(place: Equilibrium) -> str:
    alone = (place.shares.max(-1) > 1 - 1e-9).all() and (place.shares.sum(-2) > 0.5).all()
    return f"{place.kind}, {'a server for each' if alone else 'two populations share a server'}"


def main() -> int:
    options = argparse.ArgumentParser(description="The speed and the claims of the game of incentives.")
    options.add_argument("--draws", type=int, default=100)
    options.add_argument("--json", action="store_true")
    options.add_argument("--record", type=Path, help="also write it there, with commit and machine")
    chosen = small.parse(options, globals(), draws=2, SETTINGS=10)
    seconds = speed()
    found: dict[str, object] = {f"seconds for {SETTINGS} settings": round(seconds, 2), "limit": LIMIT}
    found |= claims(chosen.draws)
    if chosen.record:
        record.write(chosen.record, f"python -m benchmarks.game --draws {chosen.draws}", found)
    if chosen.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name}:" if isinstance(value, dict) else f"{name}: {value}")
            if isinstance(value, dict):
                for key, item in value.items():
                    print(f"    {key}: {item}")
    return 1 if seconds >= LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
