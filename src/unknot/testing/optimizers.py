"""Do an optimiser's two forms agree, and do rows of a stack never meet?"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from unknot.core.keys import Key
from unknot.core.registry import optimizers
from unknot.core.training import Cosine, Optimizer, Recipe, StepRule
from unknot.testing.report import Checks, Report, named

SHAPES = ((3, 5), (37,), (2, 3, 2, 2))  # odd sizes, and a convolution
KERNELS = (None, None, (3, 4))
ROWS, STEPS = 10, 40
ALONE = (0, 4, 9)  # the rows that are trained by themselves, too
SIZES = (1e-6, 1.0, 1e6)  # of the gradients: what rows share may show for large ones alone


def check_optimizer(optimizer: Optimizer | str) -> Report:
    """Hold the stacked form to the plain one, to 1e-12 in double precision, and rows' bits to those alone.

    So it is with small gradients and with large ones. The rate falls from step to step: a form that goes by
    its own `lr` and not by the rate is found. Gradients are only read, and what `states()` asks for is used.
    """
    given: Optimizer = optimizers.make(optimizer) if isinstance(optimizer, str) else optimizer
    checks = Checks(f"optimiser {named(given)}")
    alike = copy.deepcopy(given)
    checks.hold(
        "it is a value",
        given == alike and hash(given) == hash(alike),
        "two of the same settings are not equal: make it a frozen dataclass",
    )
    with checks.during("both forms run"):
        for size in SIZES:
            _forms_agree(checks, given, size)
            for dtype in (torch.float32, torch.float64):
                _rows_never_meet(checks, given, dtype, size)
        _reads_and_keeps(checks, given)
    return checks.report()


def _forms_agree(checks: Checks, optimizer: Optimizer, size: float) -> None:
    stacked = _trained(optimizer, slice(None), torch.float64, size, alone=False)
    for row in ALONE:
        plain = _trained(optimizer, slice(row, row + 1), torch.float64, size, alone=True)
        far = max(
            float((a[row] - b[0]).abs().max() / b.abs().max().clamp_min(1))
            for a, b in zip(stacked, plain, strict=True)
        )
        checks.hold(
            "a row of a stack steps as the plain form does",
            far <= 1e-12,
            f"after {STEPS} steps, at a rate that falls, with gradients of size {size:g}, they are {far:.3g} "
            "of the largest weight apart",
        )
    moved = max(
        float((a - b).abs().max()) for a, b in zip(stacked, _drawn("start", 0, torch.float64), strict=True)
    )
    checks.hold("it moves the weights", moved > 0, "they are after some steps what they were before")


def _rows_never_meet(checks: Checks, optimizer: Optimizer, dtype: torch.dtype, size: float) -> None:
    together = _trained(optimizer, slice(None), dtype, size, alone=False)
    for row in ALONE:
        single = _trained(optimizer, slice(row, row + 1), dtype, size, alone=False)
        checks.hold(
            f"a row has the same bits alone and in company, {dtype}",
            all(torch.equal(a[row], b[0]) for a, b in zip(together, single, strict=True)),
            "its numbers depend on the other rows: a sum over all of them, or a function whose last bits "
            "depend on where a number lies (see unknot.core.training.pointwise)",
        )


def _reads_and_keeps(checks: Checks, optimizer: Optimizer) -> None:
    weights, gradients = _drawn("start", 0, torch.float64), _drawn("noise", 0, torch.float64)
    kept = [g.clone() for g in gradients]
    state = [[torch.zeros_like(w) for w in weights] for _ in range(optimizer.states())]
    optimizer.stacked(1, 0.1, weights, gradients, state, [k.abs() for k in kept])
    same = all(torch.equal(a, b) for a, b in zip(gradients, kept, strict=True))
    checks.hold(
        "gradients are only read", same, "the stacked form changes them, and others may have them too"
    )
    unused = [i for i, parts in enumerate(state) if not all(part.any() for part in parts)]
    checks.hold("what it keeps is used", not unused, f"states() asks for {len(state)}; unused: {unused}")


def _drawn(name: str, step: int, dtype: torch.dtype) -> list[Tensor]:
    """Made tensors ``[rows, ...]``: other numbers in every row."""
    generator = Key.root(5).child(name, step).generator()
    return [torch.from_numpy(generator.standard_normal((ROWS, *shape))).to(dtype) for shape in SHAPES]


def _trained(optimizer: Optimizer, rows: slice, dtype: torch.dtype, size: float, alone: bool) -> list[Tensor]:
    """Some rows after several steps, at a falling rate, with gradients that depend on the weights."""
    weights = [w[rows].clone() for w in _drawn("start", 0, dtype)]
    rule = StepRule(Recipe(optimizer, schedule=Cosine(STEPS + 3)), 0, weights, KERNELS, alone=alone)
    for step in range(STEPS):
        noise, signs = _drawn("noise", step, dtype), _drawn("signs", step, dtype)
        gradients = [0.5 * min(size, 1.0) * w + size * n[rows] for w, n in zip(weights, noise, strict=True)]
        signs = [s[rows].sign() for s in signs]
        products = [g * s for g, s in zip(gradients, signs, strict=True)]
        rule.take(step, gradients, products, signs)
    return weights
