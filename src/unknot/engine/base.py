"""What both engines have: copies of the model to work with, samples in their place, evaluation, checks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unknot.core.base import trained
from unknot.core.data import Samples, Shard
from unknot.core.ensemble import Ensemble, Model
from unknot.core.jobs import Job, Score
from unknot.core.loss import Loss
from unknot.core.task import Task
from unknot.core.weights import Layout
from unknot.engine import checks
from unknot.engine.bits import probe
from unknot.engine.bits.made import Form, Maker
from unknot.engine.evaluate import Judge, Tally, slices
from unknot.engine.precision import Precision
from unknot.engine.workers import check_threads, run

T = TypeVar("T")


class Machine:
    """A template of the model, whose own weights never matter, and workers of one intra-op thread each.

    The `task` says what models are judged by, and trained by where a job's recipe does not say it.
    """

    def __init__(
        self,
        model: nn.Module,
        device: str | torch.device,
        dtype: torch.dtype,
        threads: int | None,
        precision: str = "float32",
        task: Task | None = None,
    ) -> None:
        checks.check_model(model)
        self.device = torch.device(device)
        self.dtype = dtype
        self.threads = check_threads(threads)
        self.precision = Precision.of(precision, self.device, dtype)
        self.task = task or Task()
        self.layout = Layout.of(model)
        self._template = checks.placed(checks.copied(model), self.device, dtype)
        self.layout.base.put_on(self._template)
        with torch.no_grad():
            for parameter in trained(self._template).values():
                parameter.zero_()  # the engine is to hold nobody's weights, not even those it was made from
        self._spare: list[nn.Module] = []
        self._placed: weakref.WeakKeyDictionary[Samples, Samples] = weakref.WeakKeyDictionary()
        self._outside: weakref.WeakKeyDictionary[Samples, NDArray[np.int64]] = weakref.WeakKeyDictionary()
        self._examined: dict[tuple[Form, Loss | None], probe.Examined] = {}

    def examine(self, samples: Samples) -> None:
        """Refuse a model, or a loss, whose result on such samples depends on more than what it is given."""
        form = Form.of(self._place(samples))
        if (form, None) in self._examined:
            return
        self._examine(form, None)
        made = Maker.of(self._template, form)
        model, some = (
            made.weights("start").load_into(checks.twin(self._template).eval()),
            made.samples("a", 2),
        )
        with self.gpu_settings(), self.precision.explained():
            self._judge(samples).tally(model, some.x, some.y)  # a metric that does not fit is refused now

    def _examine(self, form: Form, given: Loss | None) -> probe.Examined:
        """The loss as it is computed here, and what is known of the model; `given` is a recipe's loss."""
        if (form, given) not in self._examined:
            loss = given or self.task.loss_for(form.kind, form.texts)
            with self.gpu_settings():
                self._examined[form, given] = probe.examine(self._template, form, loss)
        return self._examined[form, given]

    def wipe(self) -> None:
        """Hold nothing of any client from now on: no module that was trained, no copy of samples."""
        self._spare.clear()
        self._placed.clear()
        self._outside.clear()

    def evaluate(self, model: Model, samples: Samples) -> Score:
        """The task's metrics and loss; slices of one size go to the workers, so threads change no bit."""
        checks.check_targets(samples)
        return self._judge(samples).score(self.tallies(model, samples))

    def evaluate_all(self, models: Sequence[Model], samples: Samples) -> list[Score]:
        """The same for several models: each as if it had been judged alone."""
        return [self.evaluate(model, samples) for model in models]

    def predict_all(self, models: Sequence[Model], samples: Samples) -> list[Tensor]:
        """What each of several models says, as if it had been asked alone."""
        return [self.predict(model, samples) for model in models]

    def tallies(self, model: Model, samples: Samples) -> list[Tally]:
        """What every slice adds to the score."""
        judge = self._judge(samples)
        return self._sliced(model, samples, judge.tally, judge.tally_together)

    def predict(self, model: Model, samples: Samples) -> Tensor:
        """The probability of every class or label, or the values, by the same slices."""
        judge = self._judge(samples)
        return torch.cat(self._sliced(model, samples, judge.answers, judge.answers_together)).cpu()

    def _judge(self, samples: Samples) -> Judge:
        """By what models are judged on such samples."""
        loss = self.task.loss_for(samples.kind, samples.y.ndim > 1)
        if loss.own:
            loss = self._examine(Form.of(self._place(samples)), None).loss
        return Judge(samples.kind, loss, self.task.metrics_for(samples.kind), self.precision)

    def _readable(self, jobs: Sequence[Job], shards: Sequence[Shard], samples: Samples) -> Samples:
        """The samples in their place, once the model and what the jobs will read of them are checked."""
        placed = self._place(samples)
        vocabulary: checks.Vocabulary | None = None
        for loss in {job.recipe.loss: None for job, shard in zip(jobs, shards, strict=True) if len(shard)}:
            vocabulary = self._examine(Form.of(placed), loss).vocabulary
        if any(map(len, shards)):
            if samples not in self._outside:
                self._outside[samples] = checks.outside(samples, vocabulary)
            if len(bad := self._outside[samples]):
                checks.check_reads(jobs, shards, samples, bad, vocabulary)
        return placed

    def _sliced(
        self,
        model: Model,
        samples: Samples,
        alone: Callable[[nn.Module, Tensor, Tensor], T],
        together: Callable[[Ensemble, nn.Module, Tensor, Tensor], T],
    ) -> list[T]:
        """What one function gives for every slice of the samples, or the other for an ensemble."""

        def vote(ensemble: Ensemble, x: Tensor, y: Tensor, stop: Event) -> T:
            with self._borrowed() as module, self.gpu_settings():
                return together(ensemble, module.eval(), x, y)

        def ask(module: nn.Module, x: Tensor, y: Tensor, stop: Event) -> T:
            return alone(module, x, y)

        parts = slices(self._place(samples))
        if isinstance(model, Ensemble):
            return self._run([partial(vote, model, x, y) for x, y in parts], self._workers())
        with self._borrowed() as module, self.gpu_settings():
            model.load_into(module.eval())
            return self._run([partial(ask, module, x, y) for x, y in parts], self._workers())

    def _run(self, tasks: Sequence[Callable[[Event], T]], workers: int) -> list[T]:
        if self.device.type == "cpu":
            return run(tasks, workers)
        return [task(Event()) for task in tasks]

    def _workers(self) -> int:
        return self.threads or torch.get_num_threads()

    @contextmanager
    def gpu_settings(self) -> Iterator[None]:
        """On a GPU: algorithms that repeat their bits, in full single precision unless TF32 is asked for."""
        if self.device.type != "cuda":
            yield
            return
        products = torch.backends.cuda.matmul
        before, products.allow_tf32 = products.allow_tf32, self.precision.tf32
        try:
            with torch.backends.cudnn.flags(
                enabled=True, benchmark=False, deterministic=True, allow_tf32=self.precision.tf32
            ):
                yield
        finally:
            products.allow_tf32 = before

    @contextmanager
    def _borrowed(self) -> Iterator[nn.Module]:
        """A copy of the model that nobody else is using: threads cannot share one to put weights in."""
        model = self._spare.pop() if self._spare else checks.twin(self._template)
        yield model
        self._spare.append(model)

    def _place(self, samples: Samples) -> Samples:
        """The samples on the device, moved there once."""
        if samples not in self._placed:
            self._placed[samples] = checks.on_device(samples, self.device, self.dtype)
        return self._placed[samples]
