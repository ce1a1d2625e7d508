"""The ways there are: each says what it can do, and hands over to the code that does it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

import torch

from unknot.core.loss import Loss, OwnLoss
from unknot.core.training import only_adds
from unknot.engine.bits.made import Maker
from unknot.engine.bits.stable import Guard
from unknot.engine.checks import twin
from unknot.engine.cuda.chain import ChainCourse, Fitted
from unknot.engine.cuda.kernels import missing
from unknot.engine.cuda.program import ProgramCourse
from unknot.engine.layers.program import Forward, Single
from unknot.engine.layers.program import Vmapped as VmappedModel
from unknot.engine.loop import train_alone
from unknot.engine.ways.fused import train_fused
from unknot.engine.ways.fused_images import train_fused_images
from unknot.engine.ways.stack import train_stack
from unknot.engine.ways.traits import Traits
from unknot.engine.ways.way import Case, Results, Stack, Way, Workshop

# From this many kernels in a convolution, one at a time keeps a processor busy, and a group of them does not.
MANY_KERNELS = 128 * 128
STREAMS = 4  # jobs that are at work side by side on a GPU, where each is trained alone
STREAMS_TWICE = 2  # where it is differentiated twice: VGG-16 takes 7.4 ms a step so, and 11 with four


class Fused(Way):
    """Forward, backward and update written out by hand."""

    name = "fused"
    strength = "a chain of layers with plain SGD"

    def lacks(self, traits: Traits) -> str:
        if traits.chain is None and traits.layout.base:
            return "some of it is frozen"
        if traits.chain is None and not traits.convolutions:
            return "it is no chain of Linear and ReLU (or Tanh)"
        if traits.chain is None:
            return "it is for chains of Conv2d, MaxPool2d, ReLU, then Flatten, Linear and ReLU (or Tanh)"
        if traits.precision.lowered:
            return "its products are in float32, and bf16 is asked for"
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

    def train(self, stack: Stack) -> Results:
        case, samples, setting = stack.case, stack.samples, stack.setting
        chain, courses = case.traits.chain, stack.workshop.courses
        assert chain is not None
        if courses is not None:
            addition = only_adds(case.recipe, stack.lessons[0].job.version)
            assert addition is not None
            batch = case.recipe.batch_size
            make = partial(ChainCourse, chain, addition, batch=batch, samples=samples, setting=setting)
            key = self.name, samples, batch, addition
            return courses.run(key, make, case.row_bytes, stack.lessons, setting, stack.stop)
        if chain.stages:
            return train_fused_images(
                chain, stack.lessons, samples, setting, stack.stop, stack.workshop.shelf, case.row_bytes
            )
        return train_fused(chain, stack.lessons, samples, setting, stack.stop)


class Batched(Way):
    """One grouped or batched call a layer, autograd."""

    name = "batched"
    strength = "every layer has a batched rule"

    def lacks(self, traits: Traits) -> str:
        return traits.why_not_batched

    def unwise(self, traits: Traits, loss: Loss | None = None) -> str:
        return _better_alone(traits, loss)

    def train(self, stack: Stack) -> Results:
        case = stack.case
        program = case.traits.twice if case.recipe.optimizer.curvature else case.traits.program
        assert program is not None
        forward = case.traits.precision.forward(program)
        if (courses := stack.workshop.courses) is not None:
            key, make = _course(self, lambda: forward, stack)
            return courses.run(key, make, case.row_bytes, stack.lessons, stack.setting, stack.stop)
        return train_stack(forward, stack.lessons, stack.samples, stack.setting, stack.stop, loss=case.loss)


class Vmapped(Way):
    """The model as it is, under `torch.vmap`."""

    name = "vmap"
    strength = "torch.vmap can run it"

    def lacks(self, traits: Traits) -> str:
        return "backward hooks are not run under it" if traits.hooked else ""

    def unwise(self, traits: Traits, loss: Loss | None = None) -> str:
        slow = "it slows convolutions" if traits.on_cpu and traits.convolutions else ""
        return _better_alone(traits, loss) or slow

    def why_not(self, case: Case, workshop: Workshop) -> str:
        """Found by running it on two rows of one made sample."""
        with workshop.borrowed() as model:
            maker = Maker.of(model, case.form)
            parameters = maker.layout.split(torch.stack([maker.weights("start").vector] * 2))
            x = maker.samples("sample", 2).x.unsqueeze(1)
            try:
                with torch.no_grad():
                    case.traits.precision.forward(VmappedModel(model.train()))(parameters, x)
            except RuntimeError as error:
                return str(error).splitlines()[0]
        return ""

    def train(self, stack: Stack) -> Results:
        given = stack.lessons, stack.samples, stack.setting, stack.stop
        precision = stack.case.traits.precision
        with stack.workshop.borrowed() as model:
            if (courses := stack.workshop.courses) is not None:
                key, make = _course(self, lambda: precision.forward(VmappedModel(twin(model.train()))), stack)
                return courses.run(key, make, stack.case.row_bytes, stack.lessons, stack.setting, stack.stop)
            return train_stack(precision.forward(VmappedModel(model.train())), *given, Guard, stack.case.loss)


class Alone(Way):
    """One job at a time, as the loop engine does it; on a GPU, a few side by side."""

    name = "loop"
    strength = "one job at a time"
    stacks = False

    def lacks(self, traits: Traits) -> str:
        return ""

    def at_once(self, case: Case) -> int:
        """How many jobs are handed over at once."""
        if case.traits.on_cpu:
            return 1
        return STREAMS_TWICE if case.recipe.optimizer.curvature else STREAMS

    def train(self, stack: Stack) -> Results:
        case, stop, precision = stack.case, stack.stop, stack.case.traits.precision
        with stack.workshop.borrowed() as model:
            if (courses := stack.workshop.courses) is not None:
                last, twice = channels_last(case.traits), case.recipe.optimizer.curvature
                key, make = _course(
                    self, lambda: precision.forward(Single(twin(model.train()), last, twice)), stack
                )
                alone, stacks = replace(stack.setting, widths=(1,)), [[one] for one in stack.lessons]
                return courses.side_by_side(key, make, case.row_bytes, stacks, alone, stop)
            return [
                (one, train_alone(model, one.job, one.shard, stack.samples, stop, case.loss, precision))
                for one in stack.lessons
            ]


def _course(
    way: Way, forward: Callable[[], Forward], stack: Stack
) -> tuple[Hashable, Callable[..., ProgramCourse]]:
    """What a course by autograd is known by, and how it is made, with a `forward` that it keeps."""
    recipe, version, loss = stack.case.recipe, stack.lessons[0].job.version, stack.case.loss

    def make(rows: int, steps: int) -> ProgramCourse:
        return ProgramCourse(
            forward(),
            recipe,
            version,
            loss,
            isinstance(way, Vmapped),
            rows,
            steps,
            recipe.batch_size,
            stack.samples,
            stack.setting,
        )

    return (way.name, stack.samples, recipe.together(version), loss), make


def channels_last(traits: Traits) -> bool:
    """Whether images may lie as a GPU's convolutions like them, the channels of a pixel side by side.

    That is no matter for the layers and functions that there is a rule for, but for `view`, which refuses it.
    """
    return traits.program is not None and all(s.kind != "reshape" for s in traits.program.instructions)


def _better_alone(traits: Traits, loss: Loss | None) -> str:
    """Why jobs are better trained one at a time; empty where they are not."""
    if isinstance(loss, OwnLoss) and loss.way == "loop":
        return "a loss that cannot be stacked"
    return "its convolutions are large enough to be run one at a time" if _large(traits) else ""


def _large(traits: Traits) -> bool:
    """Convolutions that keep a processor busy alone, where they would otherwise be grouped."""
    return traits.program is not None and traits.kernels >= MANY_KERNELS
