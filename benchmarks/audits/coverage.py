"""How often each interval covers the truth, on made scores of which it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from unknot.audit.epsilon import Counts, lower_bound
from unknot.audit.roc import Curve

NORMAL, TIMES = NormalDist(), 4000
SIZES = ((100, 1000), (1000, 1000), (1000, 10_000))


@dataclass(frozen=True)
class Task:
    members: int
    others: int
    apart: float
    """Members score so many deviations higher."""


def tasks(draws: int) -> list[Task]:
    return [Task(m, n, apart) for m, n in SIZES for apart in (0.0, 1.0)]


def measure(task: Task) -> dict[str, Any]:
    """Normal scores: the area, the rates and F1 are known."""
    draw = np.random.default_rng(task.members + task.others + int(task.apart))
    cut = 0.5
    recall, alarms = (NORMAL.cdf(mean - cut) for mean in (task.apart, 0.0))
    truth = {
        "AUC": NORMAL.cdf(task.apart / 2**0.5),
        "TPR at 1 %": NORMAL.cdf(task.apart - NORMAL.inv_cdf(0.99)),
        "TPR at 0.1 %": NORMAL.cdf(task.apart - NORMAL.inv_cdf(0.999)),
        "precision": recall / (recall + alarms),
        "recall": recall,
        "F1": 2 * recall / (1 + recall + alarms),
    }
    covered: dict[str, list[bool]] = {name: [] for name in (*truth, "ε")}
    least = np.log(max(recall / alarms, (1 - alarms) / (1 - recall)))
    for _ in range(TIMES):
        curve = Curve.of(draw.normal(task.apart, 1, task.members), draw.normal(0, 1, task.others))
        decided = curve.decided(cut)
        found = {
            "AUC": curve.auc(),
            "TPR at 1 %": curve.tpr(0.01),
            "TPR at 0.1 %": curve.tpr(0.001),
            "precision": decided["precision"],
            "recall": decided["recall"],
            "F1": decided["f1"],
        }
        for name, estimate in found.items():
            if estimate is not None:
                covered[name].append(estimate.low <= truth[name] <= estimate.high)
        hits, wrong = (int((scores > cut).sum()) for scores in (curve.members, curve.others))
        bound = lower_bound(Counts(hits, task.members, wrong, task.others))
        covered["ε"].append(bound.epsilon <= least + 1e-12)
    return {
        "members": task.members,
        "others": task.others,
        "apart": task.apart,
        "covered": {name: float(np.mean(seen)) if seen else None for name, seen in covered.items()},
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    order = {(t.members, t.others, t.apart): i for i, t in enumerate(tasks(0))}
    return {
        "times": TIMES,
        "rows": sorted(rows, key=lambda row: order[row["members"], row["others"], row["apart"]]),
    }
