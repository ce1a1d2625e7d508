"""The selector "learned" beside the others, on clients that its network has not learned from.

``python -m benchmarks.selection_learned [--data mnist,fashion-mnist] [--seeds 0-9] [--scorer FILE]
[--device cuda] [--out docs/results/selection-learned.json]``. The case of `selection_case`, its part "test";
accuracy on the data set's own test samples, over simulated time; differences paired by seed, with 95 %
intervals. ``--part choose`` is for choosing: the test is made once. ``--page docs/selection.md`` writes the
tables of a record, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parts
from benchmarks.selection_case import SMALL, Case, Ground, Knowing, World, origin, together
from unknot.core.selection import AtRandom, Selector
from unknot.experiments.seeds import parse_seeds
from unknot.select import Balanced, KCenter, Learned, Scorer
from unknot.select.learned import shipped

OTHERS = ("at random", "balanced", "K-Center")
"""Those whom the network is to beat."""
TOLD = ("the fastest third", "the fastest third of those with right labels")
"""Drawn from among those of whom somebody has told: for information."""


def contenders(world: World, scorer: Scorer, sharpness: float) -> dict[str, tuple[Selector, int | None]]:
    """Who chooses, and for how many seats where that is not the case's own number."""
    case = world.ground.case
    groups = KCenter(min(10, case.seats))
    fast = np.sort(np.argsort(world.seconds())[: max(case.seats, case.clients // 3)])
    return {
        "learned": (Learned(scorer, sharpness), None),
        "at random": (AtRandom(), None),
        "balanced": (Balanced(), None),
        "K-Center": (groups, None),
        "everybody": (AtRandom(), case.clients),
        TOLD[0]: (Knowing(fast), None),
        TOLD[1]: (Knowing(world.good()), None),
    }


def measure(
    ground: Ground, seeds: Sequence[int], scorer: Scorer, sharpness: float, device: str
) -> dict[str, Any]:
    """By selector: accuracy over time and at the end, and rounds, a number a seed."""
    worlds = [ground.federation(seed) for seed in seeds]
    named = [(world, contenders(world, scorer, sharpness)) for world in worlds]
    runs = [(world, *chosen) for world, some in named for chosen in some.values()]
    courses = together(ground, runs, "test", device)
    labels = list(named[0][1])
    return {
        label: {
            "over time": [round(course.over_time, 5) for course in courses[i :: len(labels)]],
            "at the end": [round(course.final, 5) for course in courses[i :: len(labels)]],
            "rounds": [course.rounds for course in courses[i :: len(labels)]],
            "wrong": [
                round(course.asked(world.wrong), 5)
                for world, course in zip(worlds, courses[i :: len(labels)], strict=True)
            ],
        }
        for i, label in enumerate(labels)
    }


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """The mean of paired differences, and the bounds of its 95 % interval (Student's t)."""
    mean = float(np.mean(differences))
    apart = quantile(len(differences) - 1) * float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    return mean, mean - apart, mean + apart


def quantile(degrees: int) -> float:
    """Student's t for 97.5 %: where the density, summed up from the middle, comes to 0.475."""
    step = 1e-4
    x = np.arange(step / 2, 20, step)
    norm = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    density = np.exp(norm - (degrees + 1) / 2 * np.log1p(x * x / degrees))
    return float(step * np.searchsorted(np.cumsum(density) * step, 0.475))


def table(record: dict[str, Any]) -> str:
    """What each got, over time and at the end, by data set."""
    found = record["data"]
    head = "".join(f" {name}, over time | at the end | rounds |" for name in found)
    lines = [f"| |{head}", "|---|" + "---|---|---|" * len(found)]
    for label in next(iter(found.values())):
        lines.append(f"| {label} |" + "".join(_cells(some[label]) for some in found.values()))
    return "\n".join(lines)


def _cells(found: dict[str, list[float]]) -> str:
    over, end = (100 * np.asarray(found[name]) for name in ("over time", "at the end"))
    spread = np.std(over, ddof=1)
    return f" {over.mean():.1f} % ± {spread:.1f} | {end.mean():.1f} % | {np.mean(found['rounds']):.0f} |"


def differences(record: dict[str, Any]) -> str:
    """By how many points `learned` is above the others, paired by seed."""
    found = record["data"]
    lines = ["| `learned` above |" + "".join(f" {name} |" for name in found), "|---|" + "---|" * len(found)]
    for label in (*OTHERS, "everybody", TOLD[0]):
        cells = []
        for some in found.values():
            pairs = zip(some["learned"]["over time"], some[label]["over time"], strict=True)
            mean, low, high = (100 * value for value in interval([mine - other for mine, other in pairs]))
            cells.append(f" {mean:+.1f} ({low:+.1f} to {high:+.1f}) |".replace("-", "−"))
        lines.append(f"| {label} |" + "".join(cells))
    return "\n".join(lines)


def page(record: dict[str, Any]) -> str:
    """The part of the page that is the record's."""
    seeds = len(record["seeds"])
    found = record["data"]
    wrong = {name: f"{100 * np.mean(found[name]['learned']['wrong']):.0f} %" for name in found}
    shares = " and ".join(f"{share} on {name}" for name, share in wrong.items())
    return (
        f"Accuracy on test samples over simulated time, mean ± standard deviation over {seeds} federations "
        f"of each data set:\n\n{table(record)}\n\n"
        f"Points over time, paired by federation, with 95 % intervals:\n\n{differences(record)}\n\n"
        f"Of the seats that `learned` fills, {shares} are for clients with wrong labels, who "
        f"are {100 * Case.wrong:.0f} % of all."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection_learned", description=__doc__)
    parser.add_argument("--data", default="mnist,fashion-mnist")
    parser.add_argument("--part", default="test", choices=("choose", "test"))
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--scorer", type=Path)
    parser.add_argument("--sharpness", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("docs/results/selection-learned.json"))
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    if given.page is not None:
        parts.write(given.page, learned=page(json.loads(given.out.read_text(encoding="utf-8"))))
        return 0
    scorer = shipped() if given.scorer is None else Scorer.load(given.scorer)
    names, seeds = given.data.split(","), parse_seeds(given.seeds)
    case = SMALL if names == ["digits"] else Case()
    grounds = [Ground.of(name, given.part, case) for name in names]
    record = {
        "command": "python -m benchmarks.selection_learned",
        "data sets": names,
        "part": given.part,
        "seeds": list(seeds),
        "sharpness": given.sharpness,
        "case": repr(case),
        **origin(),
        "trained": dict(scorer.trained),
        "data": {g.name: measure(g, seeds, scorer, given.sharpness, given.device) for g in grounds},
    }
    print(page(record))
    given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
