"""The verdict on a served model: four outcomes, at a stated risk of a false alarm.

- *no trace found*: it stands among its controls, and most models that kept all of the data do not;
- *still shows*: it stands out as models do that kept the erased data;
- *over-forgotten*: it stands out the other way: it knows less of the erased data than a model that never
  had it, which tells as much about who was erased;
- *no power*: most models that kept the erased data do not stand out either. Then nothing else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unknot.audit.membership import Figures
from unknot.audit.ranks import LEVEL, RankTest, Values, overall, rank_test
from unknot.audit.roc import Scores
from unknot.audit.sensitivity import Sensitivity, Trial, sensitivity
from unknot.audit.trace import Classes, adjusted, among, contrasts, traces

TRACE = "trace"
"""The statistic that is always asked for: see `unknot.audit.trace`."""
GRID = np.concatenate([[0.0], np.logspace(-4, 0, 81)])


@dataclass(frozen=True, eq=False)
class Views:
    """What one attack says of each point, for every model: ``[models, points]``, the members first."""

    served: Scores
    controls: Scores
    kept: Scores
    """Of models that were trained with all of the erased data left in."""
    left: Scores
    """Of models with a share of it left in."""
    cut: float | None = None
    referred: bool = False
    """Whether a score says little by itself, and is to be read less what the controls have on average."""


@dataclass(frozen=True, eq=False)
class Finding:
    """One attack: the served model among its controls, beside what kept the erased data."""

    attack: str
    p: float
    deviation: float
    critical: float
    statistics: dict[str, list[float]]
    """Of the served model, of each control, of each model that kept the data, as deviations."""
    seen: tuple[int, int]
    """How many of the models that kept the data it finds, of how many."""
    outcome: str
    figures: dict[str, Figures]
    """Of a kept model and of the served one."""
    controls: tuple[Figures, ...]

    @property
    def sees(self) -> bool:
        return 2 * self.seen[0] > self.seen[1]

    def to_dict(self) -> dict[str, object]:
        plain = ("attack", "deviation", "critical", "statistics", "outcome")
        band = np.array([_along(figures) for figures in self.controls])
        return {
            **{name: getattr(self, name) for name in plain},
            "p": self.p if self.sees else None,
            "seen": list(self.seen),
            **{name: figures.to_dict() for name, figures in self.figures.items()},
            "controls": {
                **_ranges(self.controls),
                "roc": {
                    "fpr": GRID.round(6).tolist(),
                    "low": band.min(0).round(6).tolist(),
                    "high": band.max(0).round(6).tolist(),
                },
            },
        }


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the attacks come to, at one level for all of them together."""

    level: float
    findings: tuple[Finding, ...]
    sensitivity: Sensitivity | None
    unlike: float
    """How many times as far from the controls the served model is as any of them is from the others, on
    points that nobody learned from. Much above 1 it is another kind of model, and may stand out for that."""

    @property
    def outcome(self) -> str:
        return overall([finding.outcome for finding in self.findings])

    @property
    def able(self) -> bool:
        """Whether any attack has power."""
        return any(finding.sees for finding in self.findings)

    @property
    def statistic(self) -> dict[str, object]:
        """What decides: of which attack, and how many deviations from the controls."""
        return {"of": self.oddest.attack, "deviation": self.oddest.deviation}

    @property
    def oddest(self) -> Finding:
        """The attack by which the served model is oddest; one with power, if there is any: only they flag."""
        able = [finding for finding in self.findings if finding.sees]
        return max(able or self.findings, key=lambda finding: abs(finding.deviation))

    @property
    def p(self) -> float:
        """The chance that all attacks together find a model without a trace so odd."""
        return self.oddest.p


def judged(
    views: Mapping[str, Views],
    shares: Sequence[float],
    classes: Classes,
    members: int,
    level: float = LEVEL,
) -> Verdict:
    """Put the served model to the test, by the trace and by whatever other attacks there are views of.

    `shares` are those that the models of `Views.left` were trained with. Each model that kept the erased
    data, or a share of it, is tested in the served model's place, against the same controls.
    """
    names = list(views)
    ranked = tester(views, classes, members, level)
    served = ranked(lambda view: view.served, None)
    kept = [
        ranked(lambda view, i=i: view.kept[i], i)  # type: ignore[misc]
        for i in range(len(views[names[0]].kept))
    ]
    left = [ranked(lambda view, i=i: view.left[i], None) for i in range(len(shares))]  # type: ignore[misc]
    findings = []
    for place, (name, view) in enumerate(views.items()):
        seen = sum(test.found(place, level) == "still shows" for test in kept), len(kept)
        figures, controls = _figures(name, view, classes, members)
        found = served.found(place, level) or "no trace found"
        findings.append(
            Finding(
                attack=name,
                p=served.p[place],
                deviation=float(served.deviations[0, place]),
                critical=served.critical,
                statistics={
                    "served": [float(served.deviations[0, place])],
                    "controls": served.deviations[1:, place].tolist(),
                    "kept": [float(test.deviations[0, place]) for test in kept],
                },
                seen=seen,
                outcome=found if 2 * seen[0] > seen[1] else "no power",
                figures=figures,
                controls=controls,
            )
        )
    told = _sensitivity(findings, kept, left, shares) if left else None
    return Verdict(level, tuple(findings), told, _unlike(next(iter(views.values())), members))


def tester(
    views: Mapping[str, Views], classes: Classes, members: int, level: float
) -> Callable[[Callable[[Views], Scores], int | None], RankTest]:
    """The test of any model in the served one's place: told its scores, and its number among the kept ones.

    A kept model is no witness in its own case.
    """

    def test(tested: Callable[[Views], Scores], own: int | None) -> RankTest:
        columns: list[tuple[Values, Values]] = []
        for name, view in views.items():
            models = np.vstack([tested(view)[None], view.controls])
            if name == TRACE:
                witnesses = view.kept if own is None else np.delete(view.kept, own, axis=0)
                columns.append(traces(models, witnesses, classes, members))
            else:
                columns.append((contrasts(models, classes, members),) * 2)
        high, both = (np.stack(side, axis=-1) for side in zip(*columns, strict=True))
        return rank_test(high[0], high[1:], level, both=(both[0], both[1:]))

    return test


def _sensitivity(
    findings: Sequence[Finding], kept: Sequence[RankTest], left: Sequence[RankTest], shares: Sequence[float]
) -> Sensitivity | None:
    """By the attack with power that a model stands out most in: any of them may flag."""
    able = [place for place, finding in enumerate(findings) if finding.sees]
    if not able:
        return None
    return sensitivity(
        [
            Trial(share, float(test.deviations[0, able].max()), test.critical)
            for share, test in [*((1.0, test) for test in kept), *zip(shares, left, strict=True)]
        ]
    )


def _unlike(view: Views, members: int) -> float:
    models = np.vstack([view.served[None], view.controls])[:, members:]
    far = [np.median(np.abs(m - np.delete(models, i, 0).mean(0))) for i, m in enumerate(models)]
    return float(far[0] / max(*far[1:], 1e-9))


def _figures(
    name: str, view: Views, classes: Classes, members: int
) -> tuple[dict[str, Figures], tuple[Figures, ...]]:
    """ROC and its figures; of the trace, on each point's z by the controls."""
    scores = {"kept": view.kept[0], "served": view.served}
    controls = view.controls
    if name == TRACE:
        scores = {who: adjusted(seen, controls, classes, members) for who, seen in scores.items()}
        controls = among(controls, classes, members)
    elif view.referred:
        scores = {who: seen - controls.mean(0) for who, seen in scores.items()}
        controls = np.array([seen - np.delete(controls, i, 0).mean(0) for i, seen in enumerate(controls)])
    return (
        {who: Figures.of(seen, members, view.cut) for who, seen in scores.items()},
        tuple(Figures.of(seen, members, view.cut) for seen in controls),
    )


def _along(figures: Figures) -> Scores:
    """The true positive rate at each false positive rate of the grid."""
    false, true = figures.curve.points()
    return np.asarray(true[np.searchsorted(false, GRID, side="right") - 1])


def _ranges(controls: Sequence[Figures]) -> dict[str, object]:
    """Over the controls: the median, the least and the most of each figure."""

    def spread(values: Sequence[float]) -> dict[str, float]:
        return {"value": float(np.median(values)), "low": float(min(values)), "high": float(max(values))}

    found: dict[str, object] = {"auc": spread([figures.auc.value for figures in controls])}
    rates: dict[str, object] = {}
    for rate in controls[0].tpr:
        values = [e.value for figures in controls if (e := figures.tpr[rate]) is not None]
        rates[f"{rate:g}"] = spread(values) if values else None
    found["tpr"] = rates
    for name in controls[0].decided:
        found[name] = spread([figures.decided[name].value for figures in controls])
    return found
