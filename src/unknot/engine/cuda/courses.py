"""Stacks on a GPU: tensors that stay in place, and a step that is captured on them once.

A step of small models is many small kernels, and a GPU is done with one before Python has asked for the
next. Captured in a CUDA graph, a step is asked for as a whole. For that its tensors must stay where they
are: a `Course` has them, for all stacks of one recipe on the same samples; each stack fills in its starts
and what it reads, takes its steps, and is read out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor

from unknot.core.data import Samples
from unknot.core.jobs import Update
from unknot.core.weights import Weights
from unknot.engine.cuda import draws
from unknot.engine.cuda.draws import Holdings
from unknot.engine.cuda.graphs import captured
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster, Stacking
from unknot.engine.workers import Stopped

Make = Callable[..., "Course"]  # (rows=, steps=)
MOST_GRAPHS = 1024  # of one course: a recipe whose steps differ has one for each


class Outcome:
    """What a stack comes to: noted when a row is done, read when all that was asked for is under way."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self._weights: list[Weights | None] = [None] * len(roster.lessons)
        self._sums = torch.empty(len(roster.lessons), dtype=torch.float64, device=roster.setting.device)

    def note(self, rows: slice, sums: Tensor, vectors: Tensor) -> None:
        """The sums of the losses of these rows, and their weights ``[rows, size]``; both are copied."""
        self._sums[rows] = sums
        jobs = [lesson.job for lesson in self.roster.lessons[rows]]
        trained = apart(vectors, [job.start.vector for job in jobs])
        self._weights[rows] = [job.trained(vector) for job, vector in zip(jobs, trained, strict=True)]

    def __iter__(self) -> Iterator[tuple[Lesson, Update]]:
        """Waits for the GPU."""
        for lesson, weights, total in zip(
            self.roster.lessons, self._weights, self._sums.tolist(), strict=True
        ):
            assert weights is not None
            yield lesson, Update(lesson.job, weights, len(lesson.shard), total / lesson.readings)


class Course(ABC):
    """Where stacks of up to `rows` jobs of one recipe are trained, for up to `steps` steps.

    `steady` says that a step is the same whatever its number: then one graph serves them all. Where it is
    not, each number has a graph; but a long step, which takes long to be captured, may be taken in two parts
    (`in_parts`): gradients, which one graph serves, and then what is done with them.
    """

    def __init__(self, rows: int, steps: int, batch: int, samples: Samples, setting: Stacking) -> None:
        device = setting.device
        self.rows, self.steps, self.batch = rows, steps, batch
        self.samples, self.setting = samples, setting
        self._reads = torch.zeros(steps, rows, batch, dtype=torch.int64, device=device)
        self._counts = torch.ones(steps, rows, dtype=torch.int64, device=device)
        self._totals = torch.zeros(rows, dtype=torch.float64, device=device)  # of the losses so far
        self._now = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(batch, device=device)
        counts = torch.arange(1, batch + 1, dtype=torch.float64)
        self._shares = torch.cat([counts.new_zeros(1), 1 / counts]).to(device=device, dtype=setting.dtype)
        self._graphs: dict[tuple[int, int | None], torch.cuda.CUDAGraph | None] = {}
        self._pool: Any = None
        self._gradients: Any = None  # of a step in parts, as it was taken last
        self._left: dict[tuple[int, int | None], Any] = {}  # where a graph leaves them
        self.why_not_captured = ""

    steady: bool
    in_parts: bool = False

    @abstractmethod
    def begin(self, starts: Tensor) -> None:
        """Put the weights ``[rows, size]`` in, as many rows as there are; forget what was there."""

    @abstractmethod
    def take(self, number: int, reads: Tensor, weights: Tensor) -> Tensor:
        """Step number `number` (from 0) of the first rows, which read ``[width, batch]``; gives the losses.

        What a sample counts in its batch is in `weights`. Nothing in it may depend on the numbers, or wait
        for them: it is written down once, and played again.
        """

    def finish(self, number: int, gradients: Any) -> None:
        """The second part of a step: what is done with the gradients that `take` left in `_gradients`."""
        raise NotImplementedError

    @abstractmethod
    def vectors(self, rows: slice) -> Tensor:
        """The weights of these rows ``[rows, size]``, as their layout has them."""

    def holds(self, roster: Roster) -> bool:
        return len(roster.rows) <= self.rows and roster.steps <= self.steps

    def run(self, outcome: Outcome, held: Holdings, stop: Event) -> Iterator[None]:
        """Train a stack: a step is asked for each time it is gone on with.

        Asked for, not done: the GPU has its own time, and is waited for when the outcome is read.
        """
        roster = outcome.roster
        width, steps = len(roster.rows), roster.steps
        reads, counts = draws.reads(roster, held)
        self._reads[:steps, :width].copy_(reads)
        self._counts[:steps, :width].copy_(counts)
        self._now.zero_()
        self._totals.zero_()
        self.begin(roster.starts())
        for step in range(steps):
            if stop.is_set():
                raise Stopped
            self._step(roster.widths[step], step)
            if leaving := roster.leaving.get(step):
                rows = slice(leaving[0], leaving[-1] + 1)
                outcome.note(rows, self._totals[rows], self.vectors(rows))
            yield

    def _step(self, width: int, number: int) -> None:
        """As it comes at first, which also makes the libraries ready; then it is captured and played."""
        key = width, None if self.steady or self.in_parts else number
        came_before = key in self._graphs
        graph = self._graphs.setdefault(key, None)
        if graph is None and came_before and not self.why_not_captured and len(self._graphs) <= MOST_GRAPHS:
            graph = self._graphs[key] = self._captured(width, number)
            self._left[key] = self._gradients
        if graph is None or self.why_not_captured:
            self._eagerly(width, number)
        else:
            graph.replay()
            self._gradients = self._left[key]
        if self.in_parts:
            self.finish(number, self._gradients)

    def _eagerly(self, width: int, number: int) -> None:
        reads = self._reads[:, :width].index_select(0, self._now).squeeze(0)
        counts = self._counts[:, :width].index_select(0, self._now).view(width, 1)
        real = self._places < counts
        losses = self.take(number, reads, torch.where(real, self._shares[counts], 0.0))
        self._totals[:width] += torch.where(real, losses.double(), 0.0).sum(1)
        self._now.add_(1)

    def _captured(self, width: int, number: int) -> torch.cuda.CUDAGraph | None:
        """A step written down, not taken; None, and the reason is kept, where that cannot be."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        step = partial(self._eagerly, width, number)
        graph, self.why_not_captured = captured(step, self.setting.device, self._pool)
        return graph


def apart(stack: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The rows of a stack, each in memory of its own: nobody's weights lie in memory with another's.

    Each is where the weights are that it comes from.
    """
    place = like[0].device
    if any(other.device != place for other in like):
        return [row.to(other.device, copy=True) for row, other in zip(stack.cpu(), like, strict=True)]
    # As they are, each in memory of its own.
    return list(torch._foreach_mul(stack.to(place).unbind(0), 1.0))


class Courses:
    """The courses that an engine keeps, within so many bytes; of too many, those used last."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._kept: OrderedDict[Hashable, tuple[Course, int]] = OrderedDict()
        self._held = Holdings()
        self._streams: list[torch.cuda.Stream] = []

    def run(
        self,
        key: Hashable,
        make: Make,
        row_bytes: int,
        stack: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Outcome:
        """Train a stack on the course of this key; `make` gives one, for so many `rows` and `steps`.

        Stacks follow each other there in the GPU's own time: the next one is asked for while it is at work.
        """
        outcome = Outcome(Roster(stack, setting))
        course = self._course(key, make, row_bytes, outcome.roster)
        for _ in course.run(outcome, self._held, stop):
            pass
        return outcome

    def side_by_side(
        self,
        key: Hashable,
        make: Make,
        row_bytes: int,
        stacks: Sequence[Sequence[Lesson]],
        setting: Stacking,
        stop: Event,
    ) -> list[tuple[Lesson, Update]]:
        """Train several stacks in turn, a step of each, each on a stream of its own."""
        outcomes = [Outcome(Roster(stack, setting)) for stack in stacks]
        while len(self._streams) < len(stacks):
            self._streams.append(torch.cuda.Stream(setting.device))  # type: ignore[no-untyped-call]
        here = torch.cuda.current_stream(setting.device)
        going = []
        for number, (outcome, stream) in enumerate(zip(outcomes, self._streams, strict=False)):
            course = self._course((key, number), make, row_bytes, outcome.roster)
            stream.wait_stream(here)
            going.append((stream, course.run(outcome, self._held, stop)))
        while going:
            going = [(stream, run) for stream, run in going if _gone_on(stream, run)]
        for stream in self._streams[: len(stacks)]:
            here.wait_stream(stream)
        return [one for outcome in outcomes for one in outcome]

    def clear(self) -> None:
        self._kept.clear()
        self._held = Holdings()

    def why_not_captured(self) -> list[str]:
        """What kept steps from being captured, where something did."""
        return sorted({course.why_not_captured for course, _ in self._kept.values()} - {""})

    def _course(self, key: Hashable, make: Make, row_bytes: int, roster: Roster) -> Course:
        course, _ = self._kept.pop(key, (None, 0))
        if course is None or not course.holds(roster):
            rows = max(len(roster.rows), course.rows if course else 0)
            steps = max(_room(roster.steps), course.steps if course else 0)
            course = None  # its memory may be needed
            self._make_room(2 * rows * row_bytes)
            course = make(rows=rows, steps=steps)
        self._kept[key] = course, 2 * course.rows * row_bytes  # a step as it comes, and one captured
        return course

    def _make_room(self, wanted: int) -> None:
        while self._kept and wanted + sum(size for _, size in self._kept.values()) > self.memory:
            _, (course, _) = self._kept.popitem(last=False)
            torch.cuda.synchronize(course.setting.device)  # it may still be at work


def _gone_on(stream: torch.cuda.Stream, run: Iterator[None]) -> bool:
    with torch.cuda.stream(stream):
        return next(run, run) is None


def _room(steps: int) -> int:
    """A power of two, so that a few more steps than last time need no other course."""
    return 1 << max(4, (steps - 1).bit_length())
