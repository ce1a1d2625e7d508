"""The fast engine: all due jobs at once, their parameters stacked on a leading axis.

A job's result is the same, bit for bit, whatever the other jobs of the cohort are, however many, in
whatever order and however cut into stacks, on any number of threads. Five things make it so: every
batch is filled up to the full batch size, a stack has at least two rows, each worker computes with one
intra-op thread, the operations of `stable` do not depend on where in memory a row lies, and no number
of rows is used before it has been tried (`trial`). On a GPU every stack has the same number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from threading import Event

import torch
from torch import nn

from unknot.core.data import FederatedData, Samples
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Update
from unknot.core.loss import Loss
from unknot.core.task import Task
from unknot.core.training import Optimizer, Recipe
from unknot.engine import checks
from unknot.engine.base import Machine
from unknot.engine.bits.made import Form, Maker
from unknot.engine.bits.stable import Guard
from unknot.engine.bits.trial import Results, Train, Trials, tried_with, try_widths
from unknot.engine.layers.program import Vmapped
from unknot.engine.loop import train_alone
from unknot.engine.ways import chunks
from unknot.engine.ways.fused import train_fused
from unknot.engine.ways.fused_images import train_fused_images
from unknot.engine.ways.lessons import Lesson, shards_of, untrained
from unknot.engine.ways.paths import Choice, Paths
from unknot.engine.ways.stack import Stacking, train_stack

CPU_MEMORY = 2 * 2**30
# More stacks than this wait for each other at Python's lock: 8 take twice as long as 4 on 16 cores.
STACKS_AT_ONCE = 4
Stack = Callable[[Event], Results]


class StackedEngine(Machine):
    """All jobs that are due at once, in stacks: the fast one.

    The `model` is a template: its own weights never matter.

    `device` and `dtype`: where and in which precision. `threads`: how many stacks are trained side by side;
    left out: PyTorch's number of threads, 4 at most. `memory`: the bytes that all stacks at work may take
    together; left out: 2 GiB, on a GPU three quarters of it. `rows`: the most jobs in one stack, on a GPU the
    number that every stack has, a multiple of 16; left out: 10 and 16. `path`: the way to train, "fused",
    "batched", "vmap" or "loop"; "auto" takes the first that the model and the recipe allow. `tf32`: on a GPU,
    let products be rounded to TF32: faster, less precise. `task`: what models are judged by, and trained by
    where a recipe does not say it.
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
        tf32: bool = False,
        task: Task | None = None,
    ) -> None:
        super().__init__(model, device, dtype, threads, tf32, task)
        on_cpu = self.device.type == "cpu"
        self.rows = rows if rows is not None else 10 if on_cpu else 16
        if self.rows < 1 or (not on_cpu and self.rows % 16):
            raise ConfigError(f"rows must be {'at least 1' if on_cpu else 'a multiple of 16'}, not {rows}")
        self.memory = memory if memory is not None else _default_memory(self.device)
        if self.memory < 1:
            raise ConfigError(f"memory is a number of bytes, not {memory}")
        self.paths = Paths(model, self.device, dtype, path)
        self.setting = Stacking(
            self.layout,
            tuple(name for name, p in model.named_parameters() if p.requires_grad),
            self.device,
            dtype,
            widths=tuple(range(2, max(self.rows, 2) + 1)) if on_cpu else (self.rows,),
        )
        self._activations: dict[Form, int] = {}
        self._taken: dict[Choice, None] = {}
        self._trials: dict[tuple[Form, int, Optimizer, Loss], Trials] = {}

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        checks.check_jobs(jobs, self.layout)
        shards = shards_of(jobs, data)
        samples = self._readable(jobs, shards, data.train)
        lessons = [Lesson.of(job, shard) for job, shard in zip(jobs, shards, strict=True)]
        groups: dict[Hashable, list[Lesson]] = {}
        for lesson in lessons:
            if lesson.steps:
                together = lesson.job.recipe.together(lesson.job.version)
                groups.setdefault(together, []).append(lesson)
        with checks.no_hidden_draws(), self._gpu_settings():
            workers, tasks = self._workers(), list[Stack]()
            for group in groups.values():
                some, fitting = self._tasks(group[0].job.recipe, group, samples)
                tasks += some
                workers = min(workers, fitting)
            results = self._run(tasks, workers)
        done = {id(lesson): update for result in results for lesson, update in result}
        return [done.get(id(lesson)) or self._untrained(lesson.job) for lesson in lessons]

    def describe(self) -> dict[str, object]:
        choices = list(self._taken) or [self.paths.choose()]
        return {
            "engine": self.name,
            "path": ", ".join(choice.path for choice in choices),
            "reason": "; ".join(f"{choice.path}: {choice.reason}" for choice in choices),
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch.") + (", products in TF32" if self.tf32 else ""),
            "threads": self._workers(),
            "rows": self.rows,
            "rows_refused": sorted(set().union(*(outcome.refused() for outcome in self._trials.values()))),
            "memory": self.memory,
            "torch": torch.__version__,
            "instructions": torch.backends.cpu.get_cpu_capability(),
        }

    def _tasks(self, recipe: Recipe, lessons: list[Lesson], samples: Samples) -> tuple[list[Stack], int]:
        """The stacks of one recipe, and how many of them may be at work at once."""
        form = Form.of(samples)
        choice = self._choose(recipe, form)
        if choice.path == "loop":
            self._taken.setdefault(choice)
            lessons = sorted(lessons, key=lambda lesson: -lesson.steps)
            return [partial(self._alone, samples, lesson) for lesson in lessons], self._workers()
        rows, workers = self._fitting(recipe, form)
        train = {"fused": self._fused, "batched": self._batched, "vmap": self._vmapped}[choice.path]
        setting = self._tested(choice, recipe, form, lessons, rows, workers, train)
        if setting is None:
            return self._tasks(recipe, lessons, samples)
        self._taken.setdefault(choice)
        stacks = chunks.cut(lessons, workers, setting.widths[-1])
        return [partial(train, samples, stack, setting) for stack in stacks], workers

    def _tested(
        self,
        choice: Choice,
        recipe: Recipe,
        form: Form,
        lessons: list[Lesson],
        rows: int,
        workers: int,
        train: Train,
    ) -> Stacking | None:
        """The numbers of rows that the stacks will have, none of which changes a bit of any job.

        None where not even the smallest stack keeps its rows apart: then the path is given up. Of the
        lessons only the numbers of steps are looked at: they say which numbers of rows will be needed.
        """
        outcome = self._outcome(recipe, form)
        tried = outcome.tried.setdefault(choice.path, {})
        setting = replace(self.setting, widths=tuple(w for w in self.setting.widths if w <= rows))
        least = setting.widths[0]
        while True:
            setting = replace(setting, widths=tuple(w for w in setting.widths if tried.get(w, True)))
            used = {
                setting.width(sum(lesson.steps > step for lesson in stack))
                for stack in chunks.cut(lessons, workers, setting.widths[-1])
                for step in {lesson.steps - 1 for lesson in stack}
            }
            if not (untried := sorted((used | {least}) - tried.keys())):
                return setting
            run = partial(self._run, workers=workers)
            tried.update(try_widths(untried, recipe, self._maker(form), setting, train, run))
            if not tried[least]:
                if self.paths.wanted != "auto":
                    raise ConfigError(f"path {choice.path!r} does not keep the rows of a stack apart here")
                outcome.unstable.add(choice.path)
                return None

    def _outcome(self, recipe: Recipe, form: Form) -> Trials:
        """What trials have shown for the shapes and the loss that this recipe and these samples give."""
        shown = form, recipe.batch_size, tried_with(recipe), self._loss(recipe, form)
        return self._trials.setdefault(shown, Trials())

    def _loss(self, recipe: Recipe, form: Form) -> Loss:
        return self._examine(form, recipe.loss).loss

    def _maker(self, form: Form) -> Maker:
        return Maker.of(self._template, form)

    def _choose(self, recipe: Recipe, form: Form) -> Choice:
        outcome, loss = self._outcome(recipe, form), self._loss(recipe, form)
        choose = partial(
            self.paths.choose,
            recipe,
            flat=form.flat,
            fusible=form.kind == "classes" and not form.texts and loss.plain,
            loss=loss,
            unstable=outcome.unstable,
        )
        choice = choose(why_not_vmap=outcome.why_not_vmap or "")
        if choice.path == "vmap" and outcome.why_not_vmap is None:
            outcome.why_not_vmap = self._vmap_error(form)
            choice = choose(why_not_vmap=outcome.why_not_vmap)
        if choice.path == "vmap" and outcome.why_not_vmap:
            raise ConfigError(f"path 'vmap' cannot run this model: {outcome.why_not_vmap}")
        return choice

    def _vmap_error(self, form: Form) -> str:
        """Why `torch.vmap` cannot run the model, found by running it on two rows of one made sample."""
        maker = self._maker(form)
        parameters = self.layout.split(torch.stack([maker.weights("start").vector] * 2))
        x = maker.samples("sample", 2).x.unsqueeze(1)
        with self._borrowed() as model:
            try:
                with torch.no_grad():
                    Vmapped(model.train())(parameters, x)
            except RuntimeError as error:
                return str(error).splitlines()[0]
        return ""

    def _fitting(self, recipe: Recipe, form: Form) -> tuple[int, int]:
        """The most rows of a stack, and the most stacks at once, that the memory allows."""
        if form not in self._activations:
            maker = self._maker(form)
            with self._borrowed() as model:
                sample = maker.samples("sample", 1).x
                self._activations[form] = chunks.activations_of(
                    maker.weights("start").load_into(model), sample
                )
        inputs = math.prod(form.inputs)
        row = chunks.row_bytes(self.layout.size, self._activations[form], inputs, recipe, self.dtype.itemsize)
        least = self.setting.widths[0]
        if self.device.type != "cpu":
            if row * least > self.memory:
                raise ConfigError(
                    f"a stack of {least} rows takes about {row * least / 2**30:.1f} GiB, more than the "
                    f"{self.memory / 2**30:.1f} GiB allowed: raise memory or lower the batch size"
                )
            return least, 1
        wanted = self._workers() if self.threads else min(self._workers(), STACKS_AT_ONCE)
        workers = max(1, min(wanted, self.memory // (row * least)))
        return max(least, min(self.rows, self.memory // (row * workers))), workers

    def _fused(self, samples: Samples, lessons: Sequence[Lesson], setting: Stacking, stop: Event) -> Results:
        chain = self.paths.chain
        assert chain is not None
        train = train_fused_images if chain.stages else train_fused
        return train(chain, lessons, samples, setting, stop)

    def _batched(
        self, samples: Samples, lessons: Sequence[Lesson], setting: Stacking, stop: Event
    ) -> Results:
        recipe = lessons[0].job.recipe
        twice = recipe.optimizer.curvature
        program = self.paths.twice if twice else self.paths.program
        assert program is not None
        loss = self._loss(recipe, Form.of(samples))
        return train_stack(program, lessons, samples, setting, stop, loss=loss)

    def _vmapped(
        self, samples: Samples, lessons: Sequence[Lesson], setting: Stacking, stop: Event
    ) -> Results:
        loss = self._loss(lessons[0].job.recipe, Form.of(samples))
        with self._borrowed() as model:
            return train_stack(Vmapped(model.train()), lessons, samples, setting, stop, Guard, loss)

    def _alone(self, samples: Samples, lesson: Lesson, stop: Event) -> Results:
        loss = self._loss(lesson.job.recipe, Form.of(samples))
        with self._borrowed() as model:
            return [(lesson, train_alone(model, lesson.job, lesson.shard, samples, stop, loss))]

    def _untrained(self, job: Job) -> Update:
        return untrained(job, job.start.vector.to(dtype=self.dtype))


def _default_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory * 3 // 4
