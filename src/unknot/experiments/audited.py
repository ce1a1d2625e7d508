"""An experiment put to the question: is what it erased still visible in what it serves?

What is served is compared with its `counterparts`: controls, which never had the erased data; models that
kept it; models in which a share of it was left, which tell how small a trace would have been found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from unknot.audit import Divergence, divergence
from unknot.audit.epsilon import Bound, Counts, lower_bound
from unknot.audit.perplexity import Perplexity
from unknot.audit.trace import Classes, adjusted, among
from unknot.audit.ulira import ToldApart, told_apart
from unknot.audit.verdict import TRACE, Verdict, Views, judged
from unknot.core.ensemble import Model
from unknot.experiments.case import KINDS, Case, Thorough
from unknot.experiments.config import Experiment
from unknot.experiments.counterparts import Counterpart, Tell, named, train_all


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found, and on how much it stands."""

    experiment: str
    erased: str
    samples: int
    """How many samples were erased that nobody else holds."""
    method: str
    members: int
    """How many of them were asked about: those for which there are others of the same class."""
    others: int
    same: bool
    """Whether the served model is the control of its own seed, bit for bit."""
    verdict: Verdict
    bound: Bound
    """On ε, by how many of the erased samples exceed a threshold, in the served model and in the controls."""
    method_told: ToldApart | None
    """Whether what the method unlearned can be told from what is retrained, where U-LiRA was asked for."""
    perplexity: Perplexity | None
    """Of texts: how well what is served predicts the erased ones, among its controls."""
    divergence: dict[str, Divergence]
    """From the control of the served model's seed: of a kept model, of the served one, of another control."""
    seeds: dict[str, list[int]]
    """Of every model; "served" is the experiment's own, and that of its control."""
    thorough: Thorough
    settings: Mapping[str, object]
    """The experiment's file."""
    model: str | None
    """The fingerprint of the model that was given in place of the run's, if one was."""
    trained: str = ""
    """What was trained on what, by their names."""
    guarantee: str = ""
    """What the run promises of the model that it serves; nothing of one that was given."""
    waived: tuple[str, ...] = ()
    """Whose erased data had a part in what the run kept."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What was spent on training, and on asking, by the clock on the wall."""

    @property
    def outcome(self) -> str:
        """The verdict's; but in a model that was trained without the erased data there is nothing to find."""
        return "no trace found" if self.same else self.verdict.outcome

    def to_dict(self) -> dict[str, object]:
        plain = ("experiment", "erased", "samples", "method", "model", "members", "others", "same", "outcome")
        verdict = self.verdict
        return {
            **{name: getattr(self, name) for name in (*plain, "trained", "seeds", "seconds", "guarantee")},
            "waived": list(self.waived),
            "level": verdict.level,
            # Without power nothing else is said.
            "p": verdict.p if verdict.able else None,
            "statistic": verdict.statistic if verdict.able else None,
            "controls": self.thorough.controls,
            "unlike": verdict.unlike,
            "sensitivity": None if verdict.sensitivity is None else verdict.sensitivity.to_dict(),
            "epsilon": self.bound.to_dict() if verdict.able else None,
            "perplexity": None if self.perplexity is None else self.perplexity.to_dict(),
            "ulira": None if self.method_told is None else self.method_told.to_dict(),
            "options": asdict(self.thorough),
            "settings": dict(self.settings),
            "divergence": {name: found.to_dict() for name, found in self.divergence.items()},
            "findings": [finding.to_dict() for finding in verdict.findings],
        }


def audit(
    experiment: Experiment,
    thorough: Thorough | None = None,
    *,
    served: Model | None = None,
    tell: Tell = lambda text: None,
) -> Audit:
    """Run an experiment with an erasure, and look for what it erased in what it serves.

    `served` is audited in place of what the run serves, where it is given: a model that is deployed. The
    members under test are the erased samples that nobody else holds, the others are test samples with the
    same mix of classes. `tell` is told what is being done.
    """
    thorough = thorough or Thorough()
    case = Case.of(experiment, thorough)
    given = None if served is None else f"a given model with the fingerprint {served.digest()}"
    if served is not None:
        case.check(served)
    wanted, seeds = case.wanted(thorough)
    started = time.perf_counter()
    own = [Counterpart(experiment.seed), *([] if served else [Counterpart(experiment.seed, whole=True)])]
    tell(f"training {len(own) + len(wanted)} models")
    runs = train_all(experiment, case.data, case.engine, [*own, *(one for _, one in wanted)])
    models = [model for model, _ in runs]
    record = None if served else runs[1][1]
    twin, served = models[0], served or models[1]
    by_kind = {
        kind: [model for model, (name, _) in zip(models[len(own) :], wanted, strict=True) if name == kind]
        for kind in KINDS
    }
    trained = time.perf_counter()
    tell("asking them")
    asked = {"served": [served], **by_kind}
    heard = {kind: case.heard(some, thorough.queries) for kind, some in asked.items() if kind != "shadows"}
    views = case.views(heard, asked, thorough)
    verdict = judged(views, case.shares(thorough), case.classes, case.members, thorough.level)
    trace = views[TRACE]
    members = case.points.subset(np.arange(case.members))
    found = {"kept": by_kind["kept"][0], "served": served, "another control": by_kind["controls"][0]}
    told = None
    if by_kind["unlearned"]:
        unlearned = heard["unlearned"].sure[:, : case.members]
        told = told_apart(unlearned, trace.controls[:, : case.members], thorough.level)
    return Audit(
        experiment=experiment.name,
        erased=named(experiment, case.data),
        samples=sum(map(len, case.erased.values())),
        method=experiment.method.name,
        members=case.members,
        others=len(case.points) - case.members,
        same=served.equal(twin),
        verdict=verdict,
        bound=_bound(trace, case.classes, case.members, thorough.level),
        method_told=told,
        perplexity=case.perplexity(heard, thorough.level),
        divergence={
            name: divergence(case.engine, model, twin, members, case.data.test)
            for name, model in found.items()
        },
        seeds={"served": [experiment.seed], **seeds},
        thorough=thorough,
        settings=experiment.table,
        model=given,
        trained=f"{experiment.model.name} on {case.data.name}",
        guarantee="" if record is None else record.guarantee,
        waived=() if record is None else tuple(record.waived),
        seconds={"training": trained - started, "asking": time.perf_counter() - trained},
    )


def _bound(trace: Views, classes: Classes, members: int, level: float) -> Bound:
    """On ε, by how many of the erased samples exceed a threshold in the served model and in the controls.

    It is the threshold that one in twenty exceeds in the controls. Samples of one model are not independent
    trials: by how much more their counts vary from control to control than those of independent ones, they
    count for fewer.
    """
    usual = among(trace.controls, classes, members)[:, :members]
    cut = np.quantile(usual, 0.95)
    hits = int((adjusted(trace.served, trace.controls, classes, members)[:members] > cut).sum())
    alarms = (usual > cut).sum(1)
    chance = alarms.mean() / members
    varies = max(1.0, float(alarms.var(ddof=1) / max(members * chance * (1 - chance), 1e-9)))
    counts = Counts(
        int(hits / varies),
        max(1, int(members / varies)),
        math.ceil(alarms.sum() / varies),
        max(1, math.ceil(members * len(alarms) / varies)),
    )
    return lower_bound(counts, level=1 - level)
