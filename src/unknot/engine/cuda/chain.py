"""Chains of layers with plain SGD on a GPU: forward, backward and update by kernels of our own.

A row's bits do not depend on how many rows there are: every sum has its order from the sizes alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.training.recipe import Addition
from unknot.core.weights import Layout
from unknot.engine.cuda import convolution
from unknot.engine.cuda.convolution import Sizes
from unknot.engine.cuda.courses import Course
from unknot.engine.cuda.linear import LinearChain
from unknot.engine.ways.chain import Chain
from unknot.engine.ways.stack import Stacking


@dataclass(frozen=True)
class Fitted:
    """A chain's kernels for samples of one shape."""

    stages: tuple[Sizes, ...]
    linear: LinearChain

    @staticmethod
    def to(
        chain: Chain, layout: Layout, inputs: tuple[int, ...], batch: int, dtype: torch.dtype
    ) -> Fitted | str:
        """Or why the kernels cannot take such samples."""
        shapes, stages = dict(zip(layout.names, layout.shapes, strict=True)), list[Sizes]()
        if chain.stages and len(inputs) != 3:
            return f"images (channels, height, width) are needed, not {inputs}"
        for stage in chain.stages:
            sizes = convolution.sizes_of(stage, (batch, *inputs), shapes[stage.weight], dtype)
            if isinstance(sizes, str):
                return sizes
            stages.append(sizes)
            inputs = sizes.result
        if math.prod(inputs) != chain.widths[0]:
            return (
                f"the first linear layer is given {math.prod(inputs)} features, and takes {chain.widths[0]}"
            )
        biased = [bias is not None for bias in chain.biases]
        linear = LinearChain.of(batch, chain.widths, biased, chain.activations, bool(stages), dtype)
        return linear.refused() or Fitted(tuple(stages), linear)


class ChainCourse(Course):
    """Stacks of a chain, for steps that are an `Addition`."""

    steady = True

    def __init__(
        self,
        chain: Chain,
        addition: Addition,
        rows: int,
        steps: int,
        batch: int,
        samples: Samples,
        setting: Stacking,
    ) -> None:
        super().__init__(rows, steps, batch, samples, setting)
        self.chain, self.addition = chain, addition
        fitted = Fitted.to(chain, setting.layout, tuple(samples.x.shape[1:]), batch, setting.dtype)
        if isinstance(fitted, str):
            raise ConfigError(fitted)
        self._fitted = fitted
        nothing = torch.zeros(rows, setting.layout.size, dtype=setting.dtype, device=setting.device)
        self._tensors = {name: part.clone() for name, part in setting.layout.split(nothing).items()}
        self._images = samples.x.contiguous()

    def begin(self, starts: Tensor) -> None:
        for name, part in self.setting.layout.split(starts).items():
            self._tensors[name][: len(starts)] = part

    @torch.no_grad()
    def take(self, number: int, reads: Tensor, weights: Tensor) -> Tensor:
        width, keep, rate = len(reads), self.addition.keep, self.addition.rate

        def first(names: tuple[str | None, ...]) -> list[Tensor | None]:
            return [None if name is None else self._tensors[name][:width] for name in names]

        stages, linear = self._fitted.stages, self._fitted.linear
        kernels = [self._tensors[stage.weight][:width] for stage in self.chain.stages]
        biases = first(tuple(stage.bias for stage in self.chain.stages))
        images, places = list[Tensor](), list[Tensor]()
        for sizes, kernel, bias in zip(stages, kernels, biases, strict=True):
            x, which = (images[-1], None) if images else (self._images, reads)
            image, place = convolution.forward(sizes, x, kernel, bias, which)
            images.append(image)
            places.append(place)
        x = images[-1].flatten(2) if images else self._images.flatten(1)
        w = [self._tensors[name][:width] for name in self.chain.weights]
        b = first(self.chain.biases)
        losses, error = linear.step(x, reads, self.samples.y, weights, w, b, keep, rate)
        for stage in reversed(range(len(images))):
            assert error is not None
            error = error.view(images[stage].shape)
            x, which = (images[stage - 1], None) if stage else (self._images, reads)
            past = images[stage], places[stage]
            gradients = convolution.weight_gradient(stages[stage], x, error, *past, which)
            if stage:
                error = convolution.input_gradient(stages[stage], error, *past, kernels[stage])
            for tensor, gradient in zip((kernels[stage], biases[stage]), gradients, strict=True):
                if tensor is not None and gradient is not None:
                    tensor.mul_(keep).add_(gradient, alpha=rate)
        return losses

    def vectors(self, rows: slice) -> Tensor:
        parts = {name: tensor[rows] for name, tensor in self._tensors.items()}
        return self.setting.layout.join(parts, rows.stop - rows.start)
