"""The ways there are: each says what it can do, and hands over to the code that does it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from threading import Event

import torch

from unknot.core.data import Samples
from unknot.core.loss import Loss, OwnLoss
from unknot.core.training import only_adds
from unknot.engine.bits.made import Maker
from unknot.engine.bits.stable import Guard
from unknot.engine.checks import copied
from unknot.engine.cuda.chain import ChainCourse, Fitted
from unknot.engine.cuda.courses import Courses
from unknot.engine.cuda.kernels import missing
from unknot.engine.cuda.program import ProgramCourse
from unknot.engine.layers.program import Forward, Single
from unknot.engine.layers.program import Vmapped as VmappedModel
from unknot.engine.loop import train_alone
from unknot.engine.ways.fused import train_fused
from unknot.engine.ways.fused_images import train_fused_images
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Stacking, train_stack
from unknot.engine.ways.traits import Traits
from unknot.engine.ways.way import Case, Results, Way, Workshop

# From this many kernels in a convolution, one at a time keeps a processor busy, and a group of them does not.
MANY_KERNELS = 128 * 128
STREAMS = 4  # jobs that are at work side by side on a GPU, where each is trained alone


class Fused(Way):
    """Forward, backward and update written out by hand."""

    name = "fused"
    strength = "a chain of layers with plain SGD"

    def lacks(self, traits: Traits) -> str:
        if traits.chain is None:
            return "it is for chains of Conv2d, MaxPool2d, ReLU, then Flatten, Linear and ReLU (or Tanh)"
        if not traits.on_cpu:
            return missing() or ""
        if traits.chain.stages and (traits.dtype != torch.float32 or traits.kernels >= MANY_KERNELS):
            return "its convolutions are too large for it, or not in single precision"
        return ""

    def why_not(self, case: Case, workshop: Workshop) -> str:
        chain, form, traits = case.traits.chain, case.form, case.traits
        assert chain is not None
        plain = only_adds(case.recipe) is not None and case.loss.plain
        if not plain or form.kind != "classes" or form.texts or not (form.flat or chain.flattens):
            return (
                "it is for one class a sample, cross-entropy without weights or smoothing, and "
                "steps that only add the gradient: SGD without momentum, at one rate, and nothing else "
                "in the recipe that changes a step"
            )
        if traits.on_cpu:
            return ""
        fitted = Fitted.to(chain, traits.layout, form.inputs, case.recipe.batch_size, traits.dtype)
        return fitted if isinstance(fitted, str) else ""

    def train(
        self,
        case: Case,
        workshop: Workshop,
        samples: Samples,
        lessons: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Results:
        chain = case.traits.chain
        assert chain is not None
        if workshop.courses is not None:
            addition = only_adds(case.recipe, lessons[0].job.version)
            assert addition is not None
            batch = case.recipe.batch_size
            make = partial(ChainCourse, chain, addition, batch=batch, samples=samples, setting=setting)
            key = self.name, samples, batch, addition
            return workshop.courses.run(key, make, case.row_bytes, lessons, setting, stop)
        train = train_fused_images if chain.stages else train_fused
        return train(chain, lessons, samples, setting, stop)


class Batched(Way):
    """One grouped or batched call a layer, autograd."""

    name = "batched"
    strength = "every layer has a batched rule"

    def lacks(self, traits: Traits) -> str:
        return traits.why_not_batched

    def unwise(self, traits: Traits, loss: Loss | None = None) -> str:
        if isinstance(loss, OwnLoss) and loss.way == "loop":
            return "a loss that cannot be stacked"
        return "its convolutions are large enough to be run one at a time" if _large(traits) else ""

    def train(
        self,
        case: Case,
        workshop: Workshop,
        samples: Samples,
        lessons: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Results:
        program = case.traits.twice if case.recipe.optimizer.curvature else case.traits.program
        assert program is not None
        if workshop.courses is not None and not case.recipe.optimizer.curvature:
            return _on_course(self, program, case, workshop.courses, samples, lessons, setting, stop)
        return train_stack(program, lessons, samples, setting, stop, loss=case.loss)


class Vmapped(Way):
    """The model as it is, under `torch.vmap`."""

    name = "vmap"
    strength = "torch.vmap can run it"

    def lacks(self, traits: Traits) -> str:
        return ""

    def unwise(self, traits: Traits, loss: Loss | None = None) -> str:
        if isinstance(loss, OwnLoss) and loss.way == "loop":
            return "a loss that cannot be stacked"
        if _large(traits):
            return "its convolutions are large enough to be run one at a time"
        return "it slows convolutions" if traits.on_cpu and traits.convolutions else ""

    def why_not(self, case: Case, workshop: Workshop) -> str:
        """Found by running it on two rows of one made sample."""
        with workshop.borrowed() as model:
            maker = Maker.of(model, case.form)
            parameters = maker.layout.split(torch.stack([maker.weights("start").vector] * 2))
            x = maker.samples("sample", 2).x.unsqueeze(1)
            try:
                with torch.no_grad():
                    VmappedModel(model.train())(parameters, x)
            except RuntimeError as error:
                return str(error).splitlines()[0]
        return ""

    def train(
        self,
        case: Case,
        workshop: Workshop,
        samples: Samples,
        lessons: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Results:
        with workshop.borrowed() as model:
            forward = VmappedModel(model.train())
            if workshop.courses is not None and not case.recipe.optimizer.curvature:
                forward = VmappedModel(copied(model))  # a course keeps it
                return _on_course(self, forward, case, workshop.courses, samples, lessons, setting, stop)
            return train_stack(forward, lessons, samples, setting, stop, Guard, case.loss)


class Alone(Way):
    """One job at a time, as the loop engine does it; on a GPU, a few side by side."""

    name = "loop"
    strength = "one job at a time"
    stacks = False

    def lacks(self, traits: Traits) -> str:
        return ""

    def at_once(self, case: Case) -> int:
        """How many jobs are handed over at once."""
        return 1 if case.traits.on_cpu or case.recipe.optimizer.curvature else STREAMS

    def train(
        self,
        case: Case,
        workshop: Workshop,
        samples: Samples,
        lessons: Sequence[Lesson],
        setting: Stacking,
        stop: Event,
    ) -> Results:
        with workshop.borrowed() as model:
            if workshop.courses is None or self.at_once(case) == 1:
                return [
                    (one, train_alone(model, one.job, one.shard, samples, stop, case.loss)) for one in lessons
                ]
            key, make = _course(self, Single(copied(model.train())), case, samples, lessons, setting)
            alone, stacks = replace(setting, widths=(1,)), [[one] for one in lessons]
            return workshop.courses.side_by_side(key, make, case.row_bytes, stacks, alone, stop)


def _on_course(
    way: Way,
    forward: Forward,
    case: Case,
    courses: Courses,
    samples: Samples,
    lessons: Sequence[Lesson],
    setting: Stacking,
    stop: Event,
) -> Results:
    """On a GPU: by autograd, each step captured once."""
    key, make = _course(way, forward, case, samples, lessons, setting)
    return courses.run(key, make, case.row_bytes, lessons, setting, stop)


def _course(
    way: Way,
    forward: Forward,
    case: Case,
    samples: Samples,
    lessons: Sequence[Lesson],
    setting: Stacking,
) -> tuple[Hashable, Callable[..., ProgramCourse]]:
    """What a course by autograd is known by, and how it is made."""
    recipe, version = case.recipe, lessons[0].job.version
    make = partial(
        ProgramCourse,
        forward,
        recipe,
        version,
        case.loss,
        isinstance(way, Vmapped),
        batch=recipe.batch_size,
        samples=samples,
        setting=setting,
    )
    return (way.name, samples, recipe.together(version), case.loss), make


def _large(traits: Traits) -> bool:
    """Convolutions that keep a processor busy alone, where they would otherwise be grouped."""
    return traits.program is not None and traits.kernels >= MANY_KERNELS
