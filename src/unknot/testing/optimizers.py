"""Does an optimiser train each row of a stack as it would alone, at the rate that it is given?"""

from __future__ import annotations

import copy

import torch

from unknot.core.registry import optimizers
from unknot.core.training import ConstantRate, Optimizer, Recipe, StepRule
from unknot.core.training.rows import FALLING, KERNELS, ROWS, drawn, kept_apart, trained
from unknot.testing.report import Checks, Report, named

SIZES = (1e-6, 1.0, 1e6)  # of the gradients: what rows share may show for large ones alone
FLOATS = (torch.float32, torch.float64)


def check_optimizer(optimizer: Optimizer | str) -> Report:
    """Hold the rows of a stack to the bits that they have alone, while others are there and when they left.

    So it is with small gradients and with large ones. The rate falls from step to step: an optimiser that
    goes by its own `lr` and not by its groups' is found. Gradients are only read.
    """
    given: Optimizer = optimizers.make(optimizer) if isinstance(optimizer, str) else optimizer
    checks = Checks(f"optimiser {named(given)}")
    alike = copy.deepcopy(given)
    checks.hold(
        "it is a value",
        given == alike and hash(given) == hash(alike),
        "two of the same settings are not equal: make it a frozen dataclass",
    )
    with checks.during("it takes steps"):
        for size in SIZES:
            for dtype in FLOATS:
                checks.hold(
                    f"a row has the same bits alone and in company, {dtype}",
                    kept_apart(given, dtype, size),
                    f"with gradients of size {size:g} its numbers depend on the other rows or on its place "
                    "among them: a sum over all of them, a look at how many axes a parameter has, or a "
                    "function whose last bits depend on where a number lies "
                    "(see unknot.core.training.pointwise)",
                )
        _goes_by_the_rate(checks, given)
        _only_reads(checks, given)
    return checks.report()


def _goes_by_the_rate(checks: Checks, optimizer: Optimizer) -> None:
    falling, constant = (
        trained(optimizer, range(ROWS), torch.float64, schedule=schedule)
        for schedule in (FALLING, ConstantRate())
    )
    differ = [not torch.equal(a, b) for a, b in zip(falling, constant, strict=True)]
    checks.hold("it moves the weights at its groups' lr", any(differ), "another lr makes no difference")


def _only_reads(checks: Checks, optimizer: Optimizer) -> None:
    weights, gradients = ([t.clone() for t in drawn(name, 0, torch.float64)] for name in ("start", "noise"))
    signs = [g.sign() for g in gradients]
    StepRule(Recipe(optimizer), 0, weights, KERNELS).take(0, gradients, gradients, signs)
    same = all(torch.equal(a, b) for a, b in zip(gradients, drawn("noise", 0, torch.float64), strict=True))
    checks.hold("gradients are only read", same, "a step changes them, and others may have them too")
