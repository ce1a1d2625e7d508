"""Is a metric a number of all samples alike, and does it say which way is up?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unknot.core.keys import Key
from unknot.core.loss import usual_loss
from unknot.core.metrics import Metric, MetricFunction, Said, as_metric
from unknot.federation.own_parts import check_metric as check_again
from unknot.testing.report import Checks, Report

KEY = Key.root(8).child("check metric")
SAMPLES, OUTPUTS = 24, 4


def check_metric(metric: Metric | MetricFunction | str, kind: str | None = None) -> Report:
    """Have a metric judge made outputs, on targets of one kind, or of all that it says it is for.

    It gives the same finite number each time, whatever the order of the samples and however they are cut
    into slices, and changes nothing that it is given; a model that is always right does better than one
    that guesses, by its own `falls`; a `share` lies between 0 and 1.
    """
    given = as_metric(metric)
    checks = Checks(f"metric {given.name}")
    for targets in given.kinds if kind is None else (kind,):
        with checks.during(f"it judges {targets}"):
            _judges(checks, given, targets)
    return checks.report()


def _judges(checks: Checks, metric: Metric, kind: str) -> None:
    targets, guessed, right = _answers(kind)
    before = guessed.clone(), targets.clone()
    value = _value(metric, guessed, targets, kind)
    checks.hold(f"it is a finite number, {kind}", math.isfinite(value), f"it is {value}")
    same = torch.equal(guessed, before[0]) and torch.equal(targets, before[1])
    checks.hold(f"outputs and targets are only read, {kind}", same, "it changes what it is given")
    with checks.during(f"it is the same the second time, {kind}"):
        check_again(metric, kind, targets, OUTPUTS)
    order = torch.from_numpy(KEY.child("order").order(range(SAMPLES)))
    for about, other in (
        ("with the samples in another order", _value(metric, guessed[order], targets[order], kind)),
        ("slice by slice", _value(metric, guessed, targets, kind, slices=5)),
    ):
        checks.hold(
            f"it is the same {about}, {kind}",
            math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9),
            f"it is {value:.6g}, and then {other:.6g}",
        )
    best = _value(metric, right, targets, kind)
    checks.hold(
        f"who is right does better than who guesses, {kind}",
        metric.merit(best) > metric.merit(value),
        f"always right it is {best:.4g}, guessed {value:.4g}, and falls is {metric.falls}",
    )
    if metric.share:
        inside = 0 <= value <= 1 and 0 <= best <= 1
        checks.hold(f"a share lies between 0 and 1, {kind}", inside, f"it is {value:.4g} or {best:.4g}")


def _answers(kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Targets of a kind, outputs that are guessed, and outputs that are right."""
    guessed = torch.from_numpy(KEY.child("guessed").generator().standard_normal((SAMPLES, OUTPUTS)))
    drawn = KEY.child("targets", kind).generator()
    if kind == "classes":
        classes = torch.arange(SAMPLES) % OUTPUTS
        return classes, guessed, 9.0 * torch.nn.functional.one_hot(classes, OUTPUTS).double()
    if kind == "labels":
        labels = torch.from_numpy(drawn.integers(0, 2, (SAMPLES, OUTPUTS))).double()
        return labels, guessed, 9.0 * (2 * labels - 1)
    values = torch.from_numpy(drawn.standard_normal((SAMPLES, OUTPUTS)))
    return values, guessed, values.clone()


def _value(metric: Metric, outputs: Tensor, targets: Tensor, kind: str, slices: int = 1) -> float:
    loss = usual_loss(kind)
    pairs = zip(outputs.tensor_split(slices), targets.tensor_split(slices), strict=True)
    return metric.value([metric.tally(Said(o, t, kind, loss(o, t))) for o, t in pairs])
