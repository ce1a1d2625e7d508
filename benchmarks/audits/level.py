"""False alarms and power: the served model is a control with another seed, or had a share left in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.audits.truth import Known, outcome, share_of
from unknot.audit.sensitivity import SHARES, Trial, sensitivity
from unknot.audit.verdict import TRACE, Views, tester

CONTROLS, NULLS, EACH, LENGTHS = 19, 20, 10, (0.5, 2.0)
SIZES = {100: 40, 200: 40, 1000: 15}
"""Rounds, by the number of samples a client has."""


@dataclass(frozen=True)
class Task:
    partition: str
    samples: int
    draw: int


def tasks(draws: int) -> list[Task]:
    return [
        Task(kind, size, draw)
        for size in sorted(SIZES, reverse=True)
        for kind in ("iid", "dirichlet")
        for draw in range(draws)
    ]


def measure(task: Task) -> dict[str, Any]:
    """Outcomes of one draw of the data."""
    case = Known.drawn(task.partition, task.samples, task.draw, SIZES[task.samples])
    plain = case.confidences([case.control(i) for i in range(CONTROLS + NULLS)])
    controls, nulls = plain[:CONTROLS], plain[CONTROLS:]
    kept = case.confidences([case.left(1.0, i) for i in range(6)])
    shares = {s: case.confidences([case.left(s, i) for i in range(EACH)]) for s in SHARES}
    found: dict[str, Any] = {
        "null": [outcome(case, seen, controls, kept[:3]) for seen in nulls],
        "1": [outcome(case, seen, controls, kept[:3]) for seen in kept[3:]],
        **{f"{s:g}": [outcome(case, seen, controls, kept[:3]) for seen in shares[s]] for s in SHARES},
    }
    for length in LENGTHS if task.draw % 2 == 0 else ():
        others = case.confidences([case.control(i, length) for i in range(CONTROLS)])
        found[f"controls × {length:g}"] = [outcome(case, seen, others, kept[:3]) for seen in nulls]
    return {
        "partition": task.partition,
        "samples": task.samples,
        "draw": task.draw,
        "members": case.members,
        "others": len(case.classes) - case.members,
        "outcomes": found,
        "sensitivity": _foretold(case, controls, kept, shares),
    }


def _foretold(case: Known, controls: Any, kept: Any, shares: dict[float, Any]) -> dict[str, Any]:
    """The sensitivity by half of the models, as an audit tells it, and how often the other half is found."""

    def trials(models: Any, share: float, witnesses: Any) -> list[Trial]:
        made = []
        for seen in models:
            view = Views(seen, controls, witnesses, np.empty((0, len(seen))))
            test = tester({TRACE: view}, case.classes, case.members, 0.05)(lambda v: v.served, None)
            made.append(Trial(share, float(test.deviations[0, 0]), test.critical))
        return made

    half = EACH // 2
    known = [t for s in SHARES for t in trials(shares[s][:half], s, kept[:3])]
    known += trials(kept[3:6], 1.0, kept[:3])
    told = sensitivity(known)
    later = {s: [t.found for t in trials(shares[s][half:], s, kept[:3])] for s in SHARES}
    return {
        "share": told.share,
        "power": {f"{s:g}": told.power[s] for s in SHARES},
        "later": {f"{s:g}": float(np.mean(found)) for s, found in later.items()},
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Shares of outcomes, over all draws of a setting, with the error by draws."""
    settings: list[dict[str, Any]] = []
    for kind in ("iid", "dirichlet"):
        for size in SIZES:
            mine = [row for row in rows if (row["partition"], row["samples"]) == (kind, size)]
            if not mine:
                continue
            served = list(dict.fromkeys(who for row in mine for who in row["outcomes"]))
            settings.append(
                {
                    "partition": kind,
                    "erased": size,
                    "members": [row["members"] for row in mine],
                    "others": [row["others"] for row in mine],
                    "outcomes": {
                        who: share_of([row["outcomes"][who] for row in mine if who in row["outcomes"]])
                        for who in served
                    },
                    "sensitivity": _together([row["sensitivity"] for row in mine]),
                }
            )
    return {"settings": settings}


def _together(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "shares": [row["share"] for row in told],
        "power": {s: float(np.mean([row["power"][s] for row in told])) for s in told[0]["power"]},
        "later": {s: float(np.mean([row["later"][s] for row in told])) for s in told[0]["later"]},
    }
