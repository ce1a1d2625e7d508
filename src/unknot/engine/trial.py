"""Before a stack of so many rows is used: does each row get the bits that it gets in the smallest?

The libraries below choose their kernels by shape, and nothing promises that they choose the same for
any number of rows. So it is tried, once for each number: one step on the jobs' own first batches, from
weights that differ from row to row. A number of rows that fails is not used. Nothing of a trial is kept
but its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

import torch

from unknot.core.jobs import Update
from unknot.core.recipe import SGD, AdaHessian
from unknot.engine import stable
from unknot.engine.paths import Path
from unknot.engine.plan import Lesson
from unknot.engine.stack import Setting

Results = list[tuple[Lesson, Update]]
Train = Callable[[Sequence[Lesson], Setting, Event], Results]
Run = Callable[[Sequence[Callable[[Event], Results]]], list[Results]]


@dataclass
class Outcome:
    """What trials have shown for some shapes: by path, the numbers of rows tried, and whether they passed."""

    tried: dict[Path, dict[int, bool]] = field(default_factory=dict)
    unstable: set[Path] = field(default_factory=set)

    def refused(self) -> set[int]:
        return {width for tried in self.tried.values() for width, passed in tried.items() if not passed}


def try_widths(
    widths: Sequence[int], lessons: Sequence[Lesson], setting: Setting, train: Train, run: Run
) -> dict[int, bool]:
    """Which of these numbers of rows change no bit, the smallest allowed one being tried with them."""
    least = setting.widths[0]
    count = stable.pad_up(max(*widths, 2 * least), least)
    trials = [_one_step(lessons[i % len(lessons)], i) for i in range(count)]
    # The smallest stacks come twice: the second time everybody has another place and other company.
    shift = max(1, least // 2 - 1)
    stacks = [
        order[i : i + least] for order in (trials, _rotated(trials, shift)) for i in range(0, count, least)
    ]
    stacks += [trials[:width] for width in widths]
    results = run([partial(train, stack, replace(setting, widths=(len(stack),))) for stack in stacks])
    expected = {id(lesson): update for result in results[: count // least] for lesson, update in result}
    agree = [_agree(result, expected) for result in results]
    good = all(agree[: 2 * count // least])
    outcome = {width: good and fine for width, fine in zip(widths, agree[2 * count // least :], strict=True)}
    return outcome | {least: good}


def _rotated(lessons: list[Lesson], shift: int) -> list[Lesson]:
    return lessons[shift:] + lessons[:shift]


# Rates so high that the result shows every bit of the gradient, and of the curvature.
_RATE = 2.0**20
_GRADIENT = SGD(_RATE)
_CURVATURE = AdaHessian(_RATE, betas=(0.0, 0.0), eps=1e-12)


def _one_step(lesson: Lesson, number: int) -> Lesson:
    """One step on the lesson's first batch, from weights of its own."""
    recipe = lesson.job.recipe
    optimizer = _CURVATURE if isinstance(recipe.optimizer, AdaHessian) else _GRADIENT
    job = replace(
        lesson.job,
        start=lesson.job.start * (1 + (number + 1) / 64),
        recipe=replace(recipe, optimizer=optimizer, clip=None, proximal=0.0),
    )
    return replace(lesson, job=job, rows=lesson.rows[:1], counts=lesson.counts[:1])


def _agree(result: Results, expected: dict[int, Update]) -> bool:
    return all(
        torch.equal(update.weights.vector, expected[id(lesson)].weights.vector)
        and update.loss == expected[id(lesson)].loss
        for lesson, update in result
    )
