"""Does an optimiser train each row of a stack as it would train it alone?"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from unknot.core.keys import Key
from unknot.core.training.optimizers import Optimizer
from unknot.core.training.recipe import Recipe, StepRule
from unknot.core.training.schedules import Cosine, Schedule

SHAPES = ((3, 5), (37,), (2, 3, 2, 2))  # odd sizes, and a convolution
KERNELS = (None, None, (3, 4))
ROWS, STEPS = 10, 40
STAY = 5  # rows that go on after half the steps
ALONE = (0, 4, 9)  # those that are trained by themselves, too
FALLING = Cosine(STEPS + 3)


def ours(optimizer: Optimizer) -> bool:
    """Whether it is one of the package's, which keep rows apart."""
    return type(optimizer).__module__.partition(".")[0] == "unknot"


@lru_cache
def kept_apart(optimizer: Optimizer, dtype: torch.dtype = torch.float32, size: float = 1.0) -> bool:
    """Whether rows of a stack have the bits that they have alone, with gradients of about this size."""
    together = trained(optimizer, range(ROWS), dtype, size)
    alone = {row: trained(optimizer, range(row, row + 1), dtype, size) for row in ALONE}
    return all(
        torch.equal(stack[row], one[0])
        for row, ones in alone.items()
        for stack, one in zip(together, ones, strict=True)
    )


def trained(
    optimizer: Optimizer, rows: range, dtype: torch.dtype, size: float = 1.0, schedule: Schedule = FALLING
) -> list[Tensor]:
    """Some rows after several steps, with gradients that depend on the weights."""
    weights = [w[rows.start : rows.stop].clone() for w in drawn("start", 0, dtype)]
    rule = StepRule(Recipe(optimizer, schedule=schedule), 0, weights, KERNELS)
    for step in range(STEPS):
        here = [row for row in rows if step < STEPS // 2 or row < STAY]
        if not here:
            break
        noise, signs = drawn("noise", step, dtype), drawn("signs", step, dtype)
        gradients = [
            0.5 * min(size, 1.0) * w[: len(here)] + size * n[here]
            for w, n in zip(weights, noise, strict=True)
        ]
        signs = [s[here].sign() for s in signs]
        products = [g * s for g, s in zip(gradients, signs, strict=True)]
        rule.take(step, gradients, products, signs)
    return weights


@lru_cache(2 * STEPS)
def drawn(name: str, step: int, dtype: torch.dtype) -> list[Tensor]:
    """Made tensors ``[rows, ...]``: other numbers in every row."""
    generator = Key.root(5).child(name, step).generator()
    return [torch.from_numpy(generator.standard_normal((ROWS, *shape))).to(dtype) for shape in SHAPES]
