"""Before a stack of so many rows is used: does each row get the bits that it gets in the smallest?

The libraries below choose their kernels by shape, and nothing promises that they choose the same for
any number of rows. So it is tried, once for each number: one step on made batches from made weights,
while every other row is spoilt by numbers that are none, which must not reach its neighbours. What is
found for a number of rows depends on model, shapes and machine alone, not on anybody's data nor on what
else was tried. A number of rows that fails is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from threading import Event

import numpy as np

from unknot.core.data import Samples, Shard
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, AdaHessian, Recipe
from unknot.core.training.rows import ours
from unknot.core.weights import Weights
from unknot.engine.bits import stable
from unknot.engine.bits.made import Maker, together
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Stacking
from unknot.engine.ways.way import Results, Way

Train = Callable[[Samples, Sequence[Lesson], Stacking, Event], Results]
Run = Callable[[Sequence[Callable[[Event], Results]]], list[Results]]


@dataclass
class Trials:
    """What trials have shown for some shapes: by way, the numbers of rows tried, and whether they passed."""

    tried: dict[Way, dict[int, bool]] = field(default_factory=dict)
    unstable: set[Way] = field(default_factory=set)

    def refused(self) -> set[int]:
        return {width for tried in self.tried.values() for width, passed in tried.items() if not passed}


# Rates so high that the result shows every bit of the gradient, and of the curvature.
_RATE = 2.0**20
_GRADIENT = SGD(_RATE)
STARTS = 7  # made starts that the rows of a trial take in turn
NUMBERS = 2**22  # at most, in all of them together
_CURVATURE = AdaHessian(_RATE, betas=(0.0, 0.0), eps=1e-12)


def try_widths(
    widths: Sequence[int], recipe: Recipe, maker: Maker, setting: Stacking, train: Train, run: Run
) -> dict[int, bool]:
    """Which of these numbers of rows change no bit of any row, whatever the others hold."""
    least = setting.widths[0]
    count = stable.pad_up(max(*widths, 2 * least), least)
    samples, rows, spoilt = _rows(recipe, maker, count)
    stacks = [rows[i : i + least] for i in range(0, count, least)]
    smallest = len(stacks)
    owners: list[int] = []  # the number of rows that each further stack is a trial of
    for width in widths:
        trials = [
            [spoilt[0] if i % 2 == 0 else row for i, row in enumerate(rows[:width])],
            [spoilt[1] if i % 2 == 1 else row for i, row in enumerate(rows[:width])],
        ]
        if width == least:
            # The smallest stacks come again: everybody has another place and other company.
            shift = max(1, least // 2 - 1)
            turned = rows[shift : 2 * least] + rows[:shift]
            trials += [turned[:least], turned[least:]]
        stacks += trials
        owners += [width] * len(trials)
    results = run(
        [partial(train, samples, stack, replace(setting, widths=(len(stack),))) for stack in stacks]
    )
    expected = {id(lesson): update for result in results[:smallest] for lesson, update in result}
    passed = dict.fromkeys(widths, True)
    for width, result in zip(owners, results[smallest:], strict=True):
        passed[width] &= _agree(result, expected)
    return passed


@lru_cache(16)
def tried_with(recipe: Recipe) -> Recipe:
    """What a trial's step is: one of the recipe with what sums over a row.

    Our optimisers keep rows apart, and need no trial of their own; others are tried.
    """
    optimizer = recipe.optimizer
    if ours(optimizer):
        optimizer = _CURVATURE if optimizer.curvature else _GRADIENT
    return Recipe(
        optimizer, batch_size=recipe.batch_size, loss=recipe.loss, clip=recipe.clip, radius=recipe.radius
    )


def _rows(recipe: Recipe, maker: Maker, count: int) -> tuple[Samples, list[Lesson], list[Lesson]]:
    """Made samples; one-step lessons on them, each from weights of its own; lessons on NaN and infinity."""
    step = tried_with(recipe)
    size, some = recipe.batch_size, max(1, min(STARTS, NUMBERS // maker.layout.size))
    starts = [maker.weights(f"start {i}") for i in range(some)]
    parts = [maker.samples(f"batch {i}", size) for i in range(count)]
    parts += [maker.spoilt(size, value) for value in (math.nan, math.inf)]

    def lesson(number: int, weights: Weights) -> Lesson:
        read = np.arange(number * size, (number + 1) * size)
        job = Job(Unit(number), weights, Key.root(number), step)
        return Lesson.of(job, Shard.of(read))

    # From several starts: in one alone, a layer may have no gradient at all, and nothing would show.
    rows = [lesson(i, starts[i % some] * (1 + (i % 16 + 1) / 64)) for i in range(count)]
    spoilt = [lesson(count + i, starts[0] * value) for i, value in enumerate((math.nan, math.inf))]
    return together(parts), rows, spoilt


def _agree(result: Results, expected: dict[int, Update]) -> bool:
    """Whether all that are expected came out the same, as bytes: NaN is no number, but has bits."""
    return all(
        update.weights.equal(expected[id(lesson)].weights)
        and np.float64(update.loss).tobytes() == np.float64(expected[id(lesson)].loss).tobytes()
        for lesson, update in result
        if id(lesson) in expected
    )
