"""The fast engine: all due jobs at once, their parameters stacked on a leading axis.

A job's result is the same, bit for bit, whatever the other jobs of the cohort are, however many, in
whatever order and however cut into stacks, on any number of threads. Five things make it so: every
batch is filled up to the full batch size, a stack has at least two rows, each worker computes with one
intra-op thread, the operations of `stable` do not depend on where in memory a row lies, and no number
of rows is used before it has been tried (`trial`). On a GPU every stack has the same number of rows.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TypeVar

import torch
from torch import Tensor, nn

from unknot.core.data import FederatedData, Samples
from unknot.core.ensemble import Ensemble, Model
from unknot.core.errors import ConfigError
from unknot.core.jobs import Job, Score, Update
from unknot.core.recipe import AdaHessian, Recipe
from unknot.core.weights import Layout
from unknot.engine import chunks, evaluate, plan
from unknot.engine.fused import train_fused
from unknot.engine.fused_images import train_fused_images
from unknot.engine.loop import train_alone
from unknot.engine.paths import Choice, Paths
from unknot.engine.plan import Lesson
from unknot.engine.stable import Guard
from unknot.engine.stack import Setting, train_stack
from unknot.engine.trace import Vmapped
from unknot.engine.trial import Outcome, Results, Train, try_widths
from unknot.engine.workers import check_threads, run

CPU_MEMORY = 2 * 2**30
# More stacks than this wait for each other at Python's lock: 8 take twice as long as 4 on 16 cores.
STACKS_AT_ONCE = 4
T = TypeVar("T")
Task = Callable[[Event], Results]


class StackedEngine:
    """Trains jobs in stacks. `model` is a template: its own weights never matter.

    `threads` is the number of workers (by default PyTorch's number of threads, 4 at most), `memory` the bytes
    that all stacks at work may take together, `rows` the most jobs in one stack; on a GPU the number
    of rows that every stack has, a multiple of 16.
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
    ) -> None:
        plan.check_model(model)
        self.device = torch.device(device)
        self.dtype = dtype
        self.threads = check_threads(threads)
        on_cpu = self.device.type == "cpu"
        self.rows = rows if rows is not None else 10 if on_cpu else 16
        if self.rows < 1 or (not on_cpu and self.rows % 16):
            raise ConfigError(f"rows must be {'at least 1' if on_cpu else 'a multiple of 16'}, not {rows}")
        self.tf32 = tf32 and not on_cpu
        self.memory = memory if memory is not None else _default_memory(self.device)
        if self.memory < 1:
            raise ConfigError(f"memory is a number of bytes, not {memory}")
        self.layout = Layout.of(model)
        self.paths = Paths(model, self.device, dtype, path)
        self.setting = Setting(
            self.layout,
            tuple(name for name, p in model.named_parameters() if p.requires_grad),
            self.device,
            dtype,
            widths=tuple(range(2, max(self.rows, 2) + 1)) if on_cpu else (self.rows,),
        )
        self._template = copy.deepcopy(model).to(device=self.device, dtype=dtype)
        self._spare: list[nn.Module] = []
        self._placed: weakref.WeakKeyDictionary[Samples, Samples] = weakref.WeakKeyDictionary()
        self._activations: dict[tuple[int, ...], int] = {}
        self._taken: dict[Choice, None] = {}
        self._trials: dict[tuple[object, ...], Outcome] = {}

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        plan.check_jobs(jobs, self.layout)
        lessons = [Lesson.of(job, shard) for job, shard in zip(jobs, plan.shards_of(jobs, data), strict=True)]
        samples = self._place(data.train)
        groups: dict[Recipe, list[Lesson]] = {}
        for lesson in lessons:
            if lesson.steps:
                groups.setdefault(lesson.job.recipe, []).append(lesson)
        with plan.no_hidden_draws(), self._gpu_settings():
            workers, tasks = self._workers(), list[Task]()
            for recipe, group in groups.items():
                some, fitting = self._tasks(recipe, group, samples)
                tasks += some
                workers = min(workers, fitting)
            results = self._run(tasks, workers)
        done = {id(lesson): update for result in results for lesson, update in result}
        return [done.get(id(lesson)) or self._untrained(lesson.job) for lesson in lessons]

    def evaluate(self, model: Model, samples: Samples) -> Score:
        """Accuracy and mean loss; slices of one size go to the workers, so threads change no bit."""
        return evaluate.score(self._sliced(model, samples, evaluate.tally, evaluate.tally_together))

    def predict(self, model: Model, samples: Samples) -> Tensor:
        """The probability of every class, by the same slices."""
        parts = self._sliced(model, samples, evaluate.probabilities, evaluate.shares)
        return torch.cat(parts).cpu()

    def examine(self, samples: Samples) -> None: ...

    def wipe(self) -> None: ...

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

    def _tasks(self, recipe: Recipe, lessons: list[Lesson], samples: Samples) -> tuple[list[Task], int]:
        """The stacks of one recipe, and how many of them may be at work at once."""
        choice = self._choose(recipe, samples)
        self._taken.setdefault(choice)
        if choice.path == "loop":
            lessons = sorted(lessons, key=lambda lesson: -lesson.steps)
            return [partial(self._alone, samples, lesson) for lesson in lessons], self._workers()
        rows, workers = self._fitting(recipe, samples)
        train = {"fused": self._fused, "batched": self._batched, "vmap": self._vmapped}[choice.path]
        setting = self._tested(choice, lessons, samples, rows, workers, partial(train, samples))
        if setting is None:
            return self._tasks(recipe, lessons, samples)
        stacks = chunks.cut(lessons, workers, setting.widths[-1])
        return [partial(train, samples, stack, setting) for stack in stacks], workers

    def _tested(
        self, choice: Choice, lessons: list[Lesson], samples: Samples, rows: int, workers: int, train: Train
    ) -> Setting | None:
        """The numbers of rows that the stacks will have, none of which changes a bit of any job.

        None where not even the smallest stack keeps its rows apart: then the path is given up.
        """
        outcome = self._outcome(lessons[0].job.recipe, samples)
        tried = outcome.tried.setdefault(choice.path, {})
        setting = replace(self.setting, widths=tuple(w for w in self.setting.widths if w <= rows))
        while True:
            setting = replace(setting, widths=tuple(w for w in setting.widths if tried.get(w, True)))
            used = {
                setting.width(sum(lesson.steps > step for lesson in stack))
                for stack in chunks.cut(lessons, workers, setting.widths[-1])
                for step in {lesson.steps - 1 for lesson in stack}
            }
            if not (untried := sorted(used - tried.keys())):
                return setting
            if not all(lesson.job.start.vector.isfinite().all() for lesson in lessons):
                return setting  # nothing to compare: whatever comes of such weights is no number
            tried.update(try_widths(untried, lessons, setting, train, partial(self._run, workers=workers)))
            if not tried[setting.widths[0]]:
                if self.paths.wanted != "auto":
                    raise ConfigError(f"path {choice.path!r} does not keep the rows of a stack apart here")
                outcome.unstable.add(choice.path)
                return None

    def _outcome(self, recipe: Recipe, samples: Samples) -> Outcome:
        """What trials have shown for the shapes that this recipe and these samples give."""
        twice = isinstance(recipe.optimizer, AdaHessian)
        shapes = recipe.batch_size, twice, samples.x.shape[1:], samples.y.shape[1:]
        return self._trials.setdefault(shapes, Outcome())

    def _choose(self, recipe: Recipe, samples: Samples) -> Choice:
        choose = partial(
            self.paths.choose,
            recipe,
            flat=samples.x.dim() == 2,
            texts=samples.y.dim() > 1,
            unstable=self._outcome(recipe, samples).unstable,
        )
        choice = choose()
        if choice.path == "vmap" and not self.paths.vmap_works:
            error = self._vmap_error(samples)
            if error and self.paths.wanted == "vmap":
                raise ConfigError(f"path 'vmap' cannot run this model: {error}")
            self.paths.why_not_vmap, self.paths.vmap_works = error, not error
            choice = choose()
        return choice

    def _vmap_error(self, samples: Samples) -> str:
        """Why `torch.vmap` cannot run the model, found by running it on two rows of one sample."""
        with self._borrowed() as model:
            parameters = {name: torch.stack([p, p]) for name, p in model.named_parameters()}
            try:
                with torch.no_grad():
                    Vmapped(model)(parameters, samples.x.new_zeros(2, 1, *samples.x.shape[1:]))
            except RuntimeError as error:
                return str(error).splitlines()[0]
        return ""

    def _fitting(self, recipe: Recipe, samples: Samples) -> tuple[int, int]:
        """The most rows of a stack, and the most stacks at once, that the memory allows."""
        shape = tuple(samples.x.shape[1:])
        if shape not in self._activations:
            with self._borrowed() as model:
                self._activations[shape] = chunks.activations_of(model, samples.x.new_zeros(1, *shape))
        row = chunks.row_bytes(
            self.layout.size, self._activations[shape], math.prod(shape), recipe, self.dtype.itemsize
        )
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

    def _fused(self, samples: Samples, lessons: Sequence[Lesson], setting: Setting, stop: Event) -> Results:
        chain = self.paths.chain
        assert chain is not None
        train = train_fused_images if chain.stages else train_fused
        return train(chain, lessons, samples, setting, stop)

    def _batched(self, samples: Samples, lessons: Sequence[Lesson], setting: Setting, stop: Event) -> Results:
        twice = isinstance(lessons[0].job.recipe.optimizer, AdaHessian)
        program = self.paths.twice if twice else self.paths.program
        assert program is not None
        return train_stack(program, lessons, samples, setting, stop)

    def _vmapped(self, samples: Samples, lessons: Sequence[Lesson], setting: Setting, stop: Event) -> Results:
        with self._borrowed() as model:
            return train_stack(Vmapped(model.train()), lessons, samples, setting, stop, Guard)

    def _alone(self, samples: Samples, lesson: Lesson, stop: Event) -> Results:
        with self._borrowed() as model:
            return [(lesson, train_alone(model, lesson.job, lesson.shard, samples, stop))]

    def _untrained(self, job: Job) -> Update:
        return plan.untrained(job, job.start.vector.to(dtype=self.dtype))

    def _run(self, tasks: Sequence[Callable[[Event], T]], workers: int) -> list[T]:
        if self.device.type == "cpu":
            return run(tasks, workers)
        return [task(Event()) for task in tasks]

    def _workers(self) -> int:
        return self.threads or torch.get_num_threads()

    def _sliced(
        self,
        model: Model,
        samples: Samples,
        alone: Callable[[nn.Module, Tensor, Tensor], T],
        together: Callable[[Ensemble, nn.Module, Tensor, Tensor], T],
    ) -> list[T]:
        """What one function gives for every slice of the samples, or the other for an ensemble."""

        def vote(ensemble: Ensemble, x: Tensor, y: Tensor, stop: Event) -> T:
            with self._borrowed() as module, self._gpu_settings():
                return together(ensemble, module.eval(), x, y)

        def ask(module: nn.Module, x: Tensor, y: Tensor, stop: Event) -> T:
            return alone(module, x, y)

        parts = evaluate.slices(self._place(samples))
        if isinstance(model, Ensemble):
            return self._run([partial(vote, model, x, y) for x, y in parts], self._workers())
        with self._borrowed() as module, self._gpu_settings():
            model.load_into(module.eval())
            return self._run([partial(ask, module, x, y) for x, y in parts], self._workers())

    @contextmanager
    def _gpu_settings(self) -> Iterator[None]:
        """On a GPU: algorithms that repeat their bits, in full single precision unless TF32 is asked for."""
        if self.device.type != "cuda":
            yield
            return
        products = torch.backends.cuda.matmul
        before, products.allow_tf32 = products.allow_tf32, self.tf32
        try:
            with torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=self.tf32
            ):
                yield
        finally:
            products.allow_tf32 = before

    @contextmanager
    def _borrowed(self) -> Iterator[nn.Module]:
        """A copy of the model that nobody else is using: threads cannot share one to put weights in."""
        model = self._spare.pop() if self._spare else copy.deepcopy(self._template)
        yield model
        self._spare.append(model)

    def _place(self, samples: Samples) -> Samples:
        """The samples on the device, moved there once."""
        if samples not in self._placed:
            self._placed[samples] = plan.on_device(samples, self.device, self.dtype)
        return self._placed[samples]


def _default_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory * 3 // 4
