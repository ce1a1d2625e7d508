"""Before a stack of so many rows is used: does each row get the bits that it gets in the smallest?

The libraries below choose their kernels by shape, and nothing promises that they choose the same for
any number of rows. So it is tried, once for each number: one step on the jobs' own first batches, from
weights that differ from row to row. A number of rows that fails is not used. Nothing of a trial is kept
but its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Event

import torch

from unknot.core.jobs import Update
from unknot.engine.plan import Lesson
from unknot.engine.stack import Setting

Results = list[tuple[Lesson, Update]]
Train = Callable[[Sequence[Lesson], Setting, Event], Results]
Run = Callable[[Sequence[Callable[[Event], Results]]], list[Results]]


def try_widths(
    widths: Sequence[int], lessons: Sequence[Lesson], setting: Setting, train: Train, run: Run
) -> dict[int, bool]:
    """Which of these numbers of rows change no bit, the smallest allowed one being tried with them."""
    least = setting.widths[0]
    trials = [_one_step(lessons[i % len(lessons)], i) for i in range(max(*widths, 2 * least))]
    small, count = replace(setting, widths=(least,)), len(trials)
    # In the smallest stack, each job is seen in two places and two companies.
    tasks = [
        partial(train, [trials[(i + step * j) % count] for j in range(least)], small)
        for step in (1, count - 1)
        for i in range(0, count, 1 if step == 1 else least)
    ]
    tasks += [partial(train, trials[:width], replace(setting, widths=(width,))) for width in widths]
    results = run(tasks)
    expected = {id(lesson): update for lesson, update in (result[0] for result in results[:count])}
    good = all(_agree(result, expected) for result in results[: len(tasks) - len(widths)])
    together = results[len(tasks) - len(widths) :]
    outcome = {
        width: good and _agree(result, expected) for width, result in zip(widths, together, strict=True)
    }
    return outcome | {least: good}


def _one_step(lesson: Lesson, number: int) -> Lesson:
    """The lesson's first step, from weights of its own."""
    job = replace(lesson.job, start=lesson.job.start * (1 + (number + 1) / 64))
    return replace(lesson, job=job, rows=lesson.rows[:1], counts=lesson.counts[:1])


def _agree(result: Results, expected: dict[int, Update]) -> bool:
    return all(
        torch.equal(update.weights.vector, expected[id(lesson)].weights.vector)
        and update.loss == expected[id(lesson)].loss
        for lesson, update in result
    )
