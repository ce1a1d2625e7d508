"""Records of audits that nobody had to train for."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np

from unknot.audit import Bound, Divergence, Views, judged, perplexity
from unknot.audit.sensitivity import Sensitivity
from unknot.audit.ulira import told_apart

MEMBERS, OTHERS, CONTROLS = 20, 1000, 19
SHIFTS = {"still shows": 3.0, "no trace found": 0.0, "over-forgotten": -3.0, "no power": 0.0}
FOUND = Sensitivity(
    0.123, {0.05: 0.1, 0.1: 0.6, 0.4: 0.9, 1.0: 1.0}, {0.05: (1, 5), 0.4: (5, 5), 1.0: (3, 3)}
)
NEVER = Sensitivity(None, {0.05: 0.1, 1.0: 0.6}, {0.05: (0, 5), 1.0: (2, 3)})


def views(outcome: str, seed: int, cut: float | None = None) -> Views:
    def made(models: int, place: int, shift: float) -> Any:
        draw = np.random.default_rng(10 * seed + place)
        return draw.normal(size=(models, MEMBERS + OTHERS)) + shift * (np.arange(MEMBERS + OTHERS) < MEMBERS)

    kept = 0.0 if outcome == "no power" else 3.0
    served = made(1, 1, SHIFTS[outcome])[0]
    return Views(served, made(CONTROLS, 2, 0.0), made(3, 3, kept), made(0, 4, 0.0), cut)


@cache
def _findings(outcome: str, attacks: tuple[str, ...]) -> str:
    names = ("trace", *attacks)
    given = {name: views(outcome, i, 0.5 if name == "Shokri" else None) for i, name in enumerate(names)}
    verdict = judged(given, (), np.zeros(MEMBERS + OTHERS, dtype=np.int64), MEMBERS)
    assert verdict.outcome == outcome
    oddest = verdict.oddest
    return json.dumps(
        {
            "findings": [finding.to_dict() for finding in verdict.findings],
            "p": verdict.p,
            "statistic": {"of": oddest.attack, "deviation": oddest.deviation},
        }
    )


def record(
    outcome: str = "still shows",
    /,
    *attacks: str,
    sensitivity: Sensitivity | None = None,
    ulira: bool = False,
    **changes: object,
) -> dict[str, Any]:
    """What `Audit.to_dict` gives, with the trace and these attacks beside it."""
    near, far = Divergence(0.9, 0.0, 0.9, None, 0.0, 1.0), Divergence(1.0, 0.1, 0.9, 1.25, 0.5, 0.8)
    alike = np.random.default_rng(1).normal(size=(2, 8, 5))
    return {
        "experiment": "digits",
        "erased": "client 2",
        "method": "rfs",
        "samples": MEMBERS + 5,
        "model": None,
        "trained": "mlp on digits",
        "unlike": 1.0,
        "options": {"controls": CONTROLS},
        "settings": {"data": {"clients": 5}},
        "members": MEMBERS,
        "others": OTHERS,
        "same": False,
        "outcome": outcome,
        "seeds": {"controls": list(range(1, 20)), "kept": [10_001, 10_002, 10_003], "left in": [20_001]},
        "seconds": {"training": 1.0, "asking": 0.1},
        "level": 0.05,
        "controls": CONTROLS,
        "sensitivity": None if sensitivity is None else sensitivity.to_dict(),
        "epsilon": None if outcome == "no power" else Bound(0.31, 3.2, 0.95, 0.0).to_dict(),
        "ulira": told_apart(*alike).to_dict() if ulira else None,
        "divergence": {"kept": far.to_dict(), "served": far.to_dict(), "another control": near.to_dict()},
        **json.loads(_findings(outcome, attacks)),
        **changes,
    }


def of_texts(shift: float = 1.0) -> dict[str, object]:
    """What `Perplexity.to_dict` gives, where the served model knows the erased texts better by so much."""
    draw = np.random.default_rng(0)

    def made(models: int, more: float) -> Any:
        return draw.normal(-2.0, 0.05, size=(models, 4)) + more * np.array([1, 1, 0, 0])

    found = perplexity(made(1, shift)[0], made(CONTROLS, 0.0), made(3, 1.0), np.full(4, 8), 2)
    return found.to_dict()
