"""Models of which the truth is known: with all, a share or nothing of the erased data, for any length."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.audit.ranks import LEVEL
from unknot.audit.verdict import TRACE, Views, judged
from unknot.core.errors import ConfigError, DataError
from unknot.experiments import Experiment
from unknot.experiments.case import Case, Thorough
from unknot.experiments.counterparts import Counterpart, some_of, train

TEXT = """
name = "by heart"
[data]
partition = "{partition}"
clients = {clients}
samples = {samples}
{more}
[train]
lr = 0.05
epochs = 2
batch_size = 10
[federation]
rounds = {rounds}
[method]
name = "{method}"
{options}
[[request]]
erase = 2
round = {before}
"""
MORE = {"iid": "", "dirichlet": "alpha = 0.3"}
OPTIONS = {"knot": "clusters = 2", "fedcio": "clusters = 2"}
OTHERS = 1000  # samples that nobody learned from
Confidences = NDArray[np.float64]


def by_heart(
    method: str, seed: int, samples: int, before: int, after: int, partition: str = "iid", clients: int = 5
) -> Experiment:
    """Little data, many epochs: a few clients learn it by heart, and one leaves."""
    text = TEXT.format(
        partition=partition,
        clients=clients,
        samples=samples,
        more=MORE[partition],
        rounds=before + after,
        before=before,
        method=method,
        options=OPTIONS.get(method, ""),
    )
    return Experiment.of(tomllib.loads(text), [f"seed={seed}"])


@dataclass(frozen=True, eq=False)
class Known:
    """One draw of the data, and what its models are asked about."""

    experiment: Experiment
    case: Case

    @staticmethod
    def drawn(partition: str, samples: int, draw: int, rounds: int) -> Known:
        """Draw number `draw` of those that the data suffices for; retrained after one round."""
        seed = 100_000 * (draw + 1)
        while True:
            experiment = by_heart("rfs", seed, samples, 1, rounds, partition, 5 if samples < 1000 else 3)
            try:
                return Known(experiment, Case.of(experiment, Thorough(others=OTHERS)))
            except (ConfigError, DataError):  # a class runs out
                seed += 1_000

    @property
    def classes(self) -> NDArray[np.int64]:
        return self.case.classes

    @property
    def members(self) -> int:
        return self.case.members

    def control(self, i: int, length: float = 1.0) -> tuple[Counterpart, float]:
        return Counterpart(self.experiment.seed + 1 + i), length

    def left(self, share: float, i: int) -> tuple[Counterpart, float]:
        seed = self.experiment.seed + 50_000 + round(1000 * share) * 20 + i
        return Counterpart(seed, some_of(self.case.erased, share, self.case.key.child("left", seed))), 1.0

    def confidences(self, wanted: Sequence[tuple[Counterpart, float]]) -> Confidences:
        """Train them as one cohort, and ask."""
        (length,) = {length for _, length in wanted}
        rounds = self.experiment.length.rounds
        assert rounds is not None
        longer = replace(self.experiment.length, rounds=1 + round(length * (rounds - 1)))
        asked = replace(self.experiment, length=longer)
        models = train(asked, self.case.data, self.case.engine, [one for one, _ in wanted])
        return self.case.heard(models, 1).sure


def outcome(case: Any, seen: Confidences, controls: Confidences, kept: Confidences) -> str:
    """The verdict on a model, as `unknot audit` comes to it."""
    views = {TRACE: Views(seen, controls, kept, np.empty((0, len(seen))))}
    return judged(views, [], case.classes, case.members, LEVEL).outcome


def share_of(outcomes: Sequence[Sequence[str]]) -> dict[str, Any]:
    """How often each outcome was reached, of how many, and the standard error over the draws."""
    names = ("still shows", "over-forgotten", "no trace found", "no power")
    flagged = [np.mean([o in names[:2] for o in draw]) for draw in outcomes]
    every = [o for draw in outcomes for o in draw]
    error = float(np.std(flagged, ddof=1) / np.sqrt(len(flagged))) if len(flagged) > 1 else None
    return {"n": len(every), **{name: every.count(name) for name in names}, "error": error}
