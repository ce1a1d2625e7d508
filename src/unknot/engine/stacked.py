"""The fast engine: all due jobs at once, their parameters stacked on a leading axis.

A job's result is the same, bit for bit, whatever the other jobs of the cohort are, however many, in
whatever order and however cut into stacks, on any number of threads. Five things make it so: every
batch is filled up to the full batch size, a stack has at least two rows, each worker computes with one
intra-op thread, the operations of `stable` do not depend on where in memory a row lies, and no number
of rows is used before it has been tried (`trial`). On a GPU a stack has one of a few numbers of rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor, nn

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Model
from unknot.core.errors import ConfigError
from unknot.core.garbage import no_garbage_search
from unknot.core.jobs import Job, Score, Update
from unknot.core.loss import Loss
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.engine import checks
from unknot.engine.base import Machine
from unknot.engine.bits.made import Form, Maker
from unknot.engine.bits.trial import Train, Trials, tried_with, try_widths
from unknot.engine.cuda.courses import Courses
from unknot.engine.cuda.exam import NUMBERS, Exam
from unknot.engine.evaluate import Judge, Tally
from unknot.engine.ways import chunks
from unknot.engine.ways.choice import Choice, choose, named, usual
from unknot.engine.ways.lessons import Lesson, by_recipe, shards_of, untrained
from unknot.engine.ways.shelf import Shelf
from unknot.engine.ways.stack import Stacking
from unknot.engine.ways.traits import Traits
from unknot.engine.ways.way import Case, Results, Stack, Way, Workshop

CPU_MEMORY = 2 * 2**30
# More stacks than this wait for each other at Python's lock: 8 take twice as long as 4 on 16 cores.
STACKS_AT_ONCE = 4
# On a GPU: few, since each has a graph of its own; and close enough that little is filled up.
GPU_WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
SMALL_WIDTHS = (4, 8, 12, 24)  # and these, where a row is as large as this
LARGE_ROW = 2**26
Work = Callable[[Event], Results]


class StackedEngine(Machine):
    """All jobs that are due at once, in stacks: the fast one.

    The `model` is a template: its own weights never matter.

    `device` and `dtype`: where and in which precision. `threads`: how many stacks are trained side by side;
    left out: PyTorch's number of threads, 4 at most. `memory`: the bytes that all stacks at work may take
    together; left out: 2 GiB, on a GPU three quarters of it. `rows`: the most jobs in one stack, on a GPU a
    multiple of 16; left out: 10 and 1024. `path`: the way to train, "fused",
    "batched", "vmap" or "loop"; "auto" takes the first that the model and the recipe allow. `precision`: how
    products are rounded, "float32" (not at all), "tf32" (on a GPU) or "bf16": less precise, and may be faster
    on large models. `task`: what models are judged by, and trained by where a recipe does not say it.
    """

    name = "stacked"

    def __init__(
        self,
        model: nn.Module,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
        memory: int | None = None,
        rows: int | None = None,
        path: str = "auto",
        precision: str = "float32",
        task: Task | None = None,
    ) -> None:
        super().__init__(model, device, dtype, threads, precision, task)
        on_cpu = self.device.type == "cpu"
        self.rows = rows if rows is not None else 10 if on_cpu else GPU_WIDTHS[-1]
        if self.rows < 1 or (not on_cpu and self.rows % 16):
            raise ConfigError(f"rows must be {'at least 1' if on_cpu else 'a multiple of 16'}, not {rows}")
        self.memory = memory if memory is not None else _default_memory(self.device)
        if self.memory < 1:
            raise ConfigError(f"memory is a number of bytes, not {memory}")
        self.traits = Traits.of(checks.twin(self._template), self.device, dtype, self.precision)
        self.wanted = named(path)
        usual(self.traits, self.wanted)  # a way that cannot train the model is refused now
        self.setting = Stacking(
            self.layout,
            self.device,
            dtype,
            widths=tuple(range(2, max(self.rows, 2) + 1)) if on_cpu else _gpu_widths(self.rows),
        )
        self._workshop = Workshop(
            self._borrowed, None if on_cpu else Courses(self.memory), Shelf(self.memory)
        )
        self._choices: dict[Hashable, Choice] = {}
        self._activations: dict[Form, int] = {}
        self._taken: dict[Choice, None] = {}
        self._exams: weakref.WeakKeyDictionary[Samples, Exam | None] = weakref.WeakKeyDictionary()
        self._trials: dict[tuple[Form, Recipe, Loss], Trials] = {}

    @no_garbage_search()
    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        checks.check_jobs(jobs, self.layout)
        shards = shards_of(jobs, data)
        samples = self._readable(jobs, shards, data.train)
        lessons = [Lesson.of(job, shard) for job, shard in zip(jobs, shards, strict=True)]
        at_work = [lesson for lesson in lessons if lesson.steps]
        groups = [[at_work[i] for i in group] for group in by_recipe([lesson.job for lesson in at_work])]
        if self.traits.on_cpu:
            for lesson in (lesson for group in groups for lesson in group):
                lesson.rows  # noqa: B018 - put in order here: workers would wait for each other at Python's lock
        with checks.no_hidden_draws(), self.gpu_settings():
            workers, tasks = self._workers(), list[Work]()
            for group in groups:
                some, fitting = self._tasks(group[0].job.recipe, group, samples)
                tasks += some
                workers = min(workers, fitting)
            results = self._run(tasks, workers)
        done = {id(lesson): update for result in results for lesson, update in result}
        return [done.get(id(lesson)) or self._untrained(lesson.job) for lesson in lessons]

    def evaluate_all(self, models: Sequence[Model], samples: Samples) -> list[Score]:
        if (exam := self._exam(samples)) is None:
            return super().evaluate_all(models, samples)
        checks.check_targets(samples)
        with self.gpu_settings():
            tallies = exam.tallies(models)
        return [self._judge(samples).score(some) for some in tallies]

    def predict_all(self, models: Sequence[Model], samples: Samples) -> list[Tensor]:
        if (exam := self._exam(samples)) is None:
            return super().predict_all(models, samples)
        with self.gpu_settings():
            return exam.answers(models)

    def tallies(self, model: Model, samples: Samples) -> list[Tally]:
        if (exam := self._exam(samples)) is None:
            return super().tallies(model, samples)
        with self.gpu_settings():
            return exam.tallies([model])[0]

    def predict(self, model: Model, samples: Samples) -> Tensor:
        if self._exam(samples) is None:
            return super().predict(model, samples)
        return self.predict_all([model], samples)[0]

    def wipe(self) -> None:
        super().wipe()
        self._exams.clear()
        self._workshop.shelf.clear()
        if self._workshop.courses is not None:
            self._workshop.courses.clear()

    def describe(self) -> dict[str, object]:
        choices = list(self._taken) or [usual(self.traits, self.wanted)]
        reasons = [f"{choice.way.name}: {choice.reason}" for choice in choices]
        if self._workshop.courses is not None:
            reasons += [f"steps not captured: {why}" for why in self._workshop.courses.why_not_captured()]
        unplayed = {exam.why_not_captured for exam in self._exams.values() if exam is not None} - {""}
        reasons += [f"judging not captured: {why}" for why in sorted(unplayed)]
        return {
            "engine": self.name,
            "path": ", ".join(dict.fromkeys(choice.way.name for choice in choices)),
            "reason": "; ".join(reasons),
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch.") + self.precision.said,
            "threads": self._workers(),
            "rows": self.rows,
            "rows_refused": self.rows_refused(),
            "memory": self.memory,
            "torch": str(torch.__version__),
            "instructions": torch.backends.cpu.get_cpu_capability(),
        }

    def rows_refused(self) -> list[int]:
        """The numbers of rows that were tried, and would change bits."""
        return sorted(set().union(*(outcome.refused() for outcome in self._trials.values())))

    def least_share(self, recipe: Recipe, samples: Samples) -> int:
        """So few jobs take as long as fewer would, in a stack that is filled up."""
        case = self._case(recipe, Form.of(self._place(samples)))
        return self._widths(case)[0] if self._choose(case).way.stacks else 1

    def _tasks(self, recipe: Recipe, lessons: list[Lesson], samples: Samples) -> tuple[list[Work], int]:
        """The stacks of one recipe, and how many of them may be at work at once."""
        case = self._case(recipe, Form.of(samples))
        while True:
            choice = self._choose(case)
            train = partial(self._train_by, choice.way, case)
            if not choice.way.stacks:
                self._taken.setdefault(choice)
                few = chunks.fill(lessons, choice.way.at_once(case))
                return [partial(train, samples, some, self.setting) for some in few], self._workers()
            rows, workers = self._fitting(case)
            setting = self._tested(choice.way, case, lessons, rows, workers, train)
            if setting is not None:
                break
        self._taken.setdefault(choice)
        stacks = self._cut(lessons, workers, setting.widths[-1])
        return [partial(train, samples, stack, setting) for stack in stacks], workers

    def _train_by(
        self,
        way: Way,
        case: Case,
        samples: Samples,
        lessons: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Results:
        return way.train(Stack(case, self._workshop, samples, lessons, setting, stop))

    def _cut(self, lessons: list[Lesson], workers: int, most: int) -> list[list[Lesson]]:
        return chunks.cut(lessons, workers, most) if self.traits.on_cpu else chunks.fill(lessons, most)

    def _tested(
        self, way: Way, case: Case, lessons: list[Lesson], rows: int, workers: int, train: Train
    ) -> Stacking | None:
        """The numbers of rows that the stacks will have, none of which changes a bit of any job.

        None where not even the smallest stack keeps its rows apart: then the way is given up. Of the
        lessons only the numbers of steps are looked at: they say which numbers of rows will be needed.
        """
        outcome = self._outcome(case)
        tried = outcome.tried.setdefault(way, {})
        setting = replace(self.setting, widths=tuple(w for w in self._widths(case) if w <= rows))
        least = setting.widths[0]
        while True:
            setting = replace(setting, widths=tuple(w for w in setting.widths if tried.get(w, True)))
            used = set[int]()
            for stack in self._cut(lessons, workers, setting.widths[-1]):
                # As many are at work until the first is done, until the second is...
                steps = sorted(lesson.steps for lesson in stack)
                left = len(steps) - np.searchsorted(steps, np.unique(steps))
                used |= {setting.width(count) for count in left.tolist()}
            if not (untried := sorted((used | {least}) - tried.keys())):
                return setting
            run = partial(self._run, workers=workers)
            tried.update(try_widths(untried, case.recipe, self._maker(case.form), setting, train, run))
            if not tried[least]:
                if self.wanted is not None:
                    raise ConfigError(f"path {way.name!r} does not keep the rows of a stack apart here")
                outcome.unstable.add(way)
                return None

    def _outcome(self, case: Case) -> Trials:
        """What trials have shown for the shapes and the loss that this recipe and these samples give."""
        return self._trials.setdefault((case.form, tried_with(case.recipe), case.loss), Trials())

    def _case(self, recipe: Recipe, form: Form) -> Case:
        loss = self._examine(form, recipe.loss).loss
        return Case(self.traits, recipe, loss, form, self._activations_of(form))

    def _choose(self, case: Case) -> Choice:
        unstable = self._outcome(case).unstable
        shown = case.form, case.recipe, case.loss, frozenset(unstable)
        if shown not in self._choices:
            self._choices[shown] = choose(case, self._workshop, self.wanted, unstable)
        return self._choices[shown]

    def _maker(self, form: Form) -> Maker:
        return Maker.of(self._template, form)

    def _activations_of(self, form: Form) -> int:
        if form not in self._activations:
            maker = self._maker(form)
            with self._borrowed() as model:
                sample = maker.samples("sample", 1).x
                self._activations[form] = chunks.activations_of(
                    maker.weights("start").load_into(model), sample, self.precision.lowered
                )
        return self._activations[form]

    def _widths(self, case: Case) -> tuple[int, ...]:
        """How many rows a stack may have: on a GPU fewer where each has much to do by itself."""
        small = [] if self.traits.on_cpu or case.row_bytes < LARGE_ROW else SMALL_WIDTHS
        return tuple(sorted({*self.setting.widths, *(width for width in small if width < self.rows)}))

    def _fitting(self, case: Case) -> tuple[int, int]:
        """The most rows of a stack, and the most stacks at once, that the memory allows."""
        row, least = case.row_bytes, self._widths(case)[0]
        if not self.traits.on_cpu:
            if row * least > self.memory:
                raise ConfigError(
                    f"a stack of {least} rows takes about {row * least / 2**30:.1f} GiB, more than the "
                    f"{self.memory / 2**30:.1f} GiB allowed: raise memory or lower the batch size"
                )
            return max(least, min(self.rows, self.memory // (2 * row))), 1
        wanted = self._workers() if self.threads else min(self._workers(), STACKS_AT_ONCE)
        workers = max(1, min(wanted, self.memory // (row * least)))
        return max(least, min(self.rows, self.memory // (row * workers))), workers

    def _exam(self, samples: Samples) -> Exam | None:
        """Where models are judged on these samples on a GPU; None: slice by slice, as on a CPU.

        Which of the two goes by the samples' shapes, their number, what the model gives for one, and whether
        all of them have targets that a loss can be had of.
        """
        if self.traits.on_cpu or not len(samples):
            return None
        if samples not in self._exams:
            placed, judge = self._place(samples), self._judge(samples)
            exam = Exam(checks.twin(self._template), placed, judge)
            small = len(samples) * self._said(Form.of(placed), judge) <= NUMBERS
            self._exams[samples] = exam if small and not len(checks.outside(samples, None)) else None
        return self._exams[samples]

    def _said(self, form: Form, judge: Judge) -> int:
        """How many numbers a model gives for one sample."""
        maker = self._maker(form)
        one = maker.samples("sample", 1)
        with self._borrowed() as model, self.gpu_settings(), torch.no_grad():
            maker.weights("start").load_into(model.eval())
            return judge.outputs(model, one.x, one.y).numel()

    def _untrained(self, job: Job) -> Update:
        return untrained(job, job.start.vector.to(dtype=self.dtype))


def _gpu_widths(rows: int) -> tuple[int, ...]:
    """Few numbers of rows: each has graphs of its own, and is tried before it is used."""
    return tuple(sorted({width for width in GPU_WIDTHS if width < rows} | {rows}))


def _default_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory * 3 // 4
