"""Cutting a cohort into stacks: as many as there are cores, as even as can be, none over the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unknot.core.base import HALVES
from unknot.core.training import Recipe
from unknot.engine.ways.lessons import Lesson


def row_bytes(layout_size: int, activations: int, inputs: int, recipe: Recipe, itemsize: int) -> int:
    """What one row needs at the most: weights, gradients, optimiser state, activations, its batch.

    An estimate from above: activations count twice (forward and backward), and three times that where
    the backward pass is itself differentiated.
    """
    second_order = recipe.optimizer.curvature
    copies = 3 + recipe.kept + (4 if second_order else 0)
    passes = 6 if second_order else 2
    return itemsize * (layout_size * copies + recipe.batch_size * (activations * passes + 2 * inputs))


def activations_of(model: nn.Module, sample: Tensor, patches: bool = False) -> int:
    """How many numbers the layers of a model give for one sample; two in half precision count as one.

    With `patches`, convolutions are products with the patches that their kernels lie on, which count, too.
    """
    total = 0

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        if isinstance(output, Tensor):
            total += output.numel() // (2 if output.dtype in HALVES else 1)
        if patches and isinstance(module, nn.Conv2d) and isinstance(output, Tensor):
            total += module.in_channels * math.prod(module.kernel_size) * math.prod(output.shape[-2:])

    hooks = [m.register_forward_hook(count) for m in model.modules() if not any(m.children())]
    hooks += [m.register_forward_hook(count) for m in model.modules() if hasattr(m, "batched_kind")]
    try:
        with torch.no_grad():
            model(sample)
    finally:
        for hook in hooks:
            hook.remove()
    return total


def cut(lessons: Sequence[Lesson], stacks: int, most: int) -> list[list[Lesson]]:
    """At least `stacks` stacks (if there are jobs enough) of at most `most` jobs, with equal work.

    Jobs with as many steps lie together, so that a stack is at work as a whole for as long as can be.
    """
    lessons = sorted(lessons, key=lambda lesson: -lesson.steps)
    wanted = max(-(-len(lessons) // most), min(stacks, len(lessons)))
    wanted = min(-(-wanted // stacks) * stacks, len(lessons))
    chunks: list[list[Lesson]] = []
    left = sum(lesson.steps for lesson in lessons)
    while lessons:
        still = max(wanted - len(chunks), -(-len(lessons) // most))
        share, taken, rows = left / still, 0, 0
        while rows < min(most, len(lessons) - still + 1) and (
            rows == 0 or taken + lessons[rows].steps / 2 <= share
        ):
            taken += lessons[rows].steps
            rows += 1
        chunks.append(lessons[:rows])
        lessons, left = lessons[rows:], left - taken
    return chunks


def fill(lessons: Sequence[Lesson], most: int) -> list[list[Lesson]]:
    """As few stacks as can be, the longest jobs in the first: what a GPU wants, which takes one at a time."""
    lessons = sorted(lessons, key=lambda lesson: -lesson.steps)
    return [lessons[first : first + most] for first in range(0, len(lessons), most)]
