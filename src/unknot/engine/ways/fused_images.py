"""Convolutional chains with plain SGD: as `fused`, with convolutions and max pools below it.

All rows' channels lie side by side (an `Image`), so that one grouped convolution serves the stack. The
large gradients of the pools go to buffers that stay: fresh memory costs as much as computing on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.jobs import Update
from unknot.core.training import only_adds
from unknot.engine.layers.forms import laid_apart, side_by_side
from unknot.engine.layers.stage import Stage
from unknot.engine.ways.chain import Chain
from unknot.engine.ways.fused import LinearLayers, descend, scripted
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster, Stacking
from unknot.engine.workers import Stopped

aten: Any = torch.ops.aten


class _Convolution:
    """A stage's stacked kernels ``[rows, out, height, width, in]`` and biases, and one step of it."""

    def __init__(self, stage: Stage, parts: dict[str, Tensor]) -> None:
        self.stage = stage
        self.all_kernels = parts[stage.weight].permute(0, 1, 3, 4, 2).contiguous()
        self.all_biases = None if stage.bias is None else parts[stage.bias].clone()
        self.pooled_gradient: Tensor | None = None

    def narrow(self, rows: int) -> None:
        """Compute with the first rows from now on."""
        self.groups = rows * self.stage.groups
        self.kernels = self.all_kernels[:rows].flatten(0, 1).permute(0, 3, 1, 2)
        self.biases = None if self.all_biases is None else self.all_biases[:rows].flatten()
        self.pooled_gradient = None

    def forward(self, x: Tensor) -> Tensor:
        stage = self.stage
        out = F.conv2d(x, self.kernels, self.biases, stage.stride, stage.padding, stage.dilation, self.groups)
        self.x, self.raw = x, out
        if stage.pool is not None:
            out, self.places = aten.max_pool2d_with_indices(out, *stage.pool)
        self.out = out.relu_() if stage.relu else out
        return self.out

    def backward(self, error: Tensor, further: bool, keep: float, rate: float) -> Tensor:
        """Take the step; gives the gradient for the input, if it is to go `further` down."""
        stage = self.stage
        if stage.relu:
            error = aten.threshold_backward(error, self.out, 0)
        if stage.pool is not None:
            if self.pooled_gradient is None:
                self.pooled_gradient = torch.empty_like(self.raw)
            error = aten.max_pool2d_with_indices_backward.grad_input(
                error, self.raw, *stage.pool, False, self.places, grad_input=self.pooled_gradient
            )
        below, kernels, biases = aten.convolution_backward(
            error,
            self.x,
            self.kernels,
            [self.kernels.shape[0]],
            stage.stride,
            stage.padding,
            stage.dilation,
            False,
            [0, 0],
            self.groups,
            [further, True, self.biases is not None],
        )
        for tensor, gradient in ((self.kernels, kernels), (self.biases, biases)):
            if tensor is not None:
                if keep != 1.0:
                    tensor.mul_(keep)
                tensor.add_(gradient, alpha=rate)
        del self.x, self.raw, self.out  # before the next step needs memory, not while it does
        return error if below is None else below

    def parts(self, row: int) -> dict[str, Tensor]:
        parts = {self.stage.weight: self.all_kernels[row].permute(0, 3, 1, 2)}
        if self.stage.bias is not None and self.all_biases is not None:
            parts[self.stage.bias] = self.all_biases[row]
        return parts


@torch.no_grad()
def train_fused_images(
    chain: Chain, lessons: Sequence[Lesson], samples: Samples, setting: Stacking, stop: Event
) -> list[tuple[Lesson, Update]]:
    """As `train_stack`, for a chain that starts with convolutions, and plain SGD."""
    job = lessons[0].job
    addition = only_adds(job.recipe, job.version)
    assert addition is not None
    keep, rate = addition
    roster = Roster(lessons, setting)
    starts = roster.starts()
    convolutions = [_Convolution(stage, setting.layout.split(starts)) for stage in chain.stages]
    layers = LinearLayers(chain, starts, setting.layout, roster.batch)
    biased = [bias is not None for bias in chain.biases]
    tanh = [activation == "tanh" for activation in chain.activations]
    take_step = scripted(descend)
    targets = samples.y.index_select(0, roster.reads.reshape(-1)).view(*roster.reads.shape, 1)
    weights = roster.weights.unsqueeze(-1)
    chosen = torch.zeros_like(weights)
    vectors: list[Tensor] = [torch.empty(0)] * len(roster.lessons)
    width, w, b = 0, layers.weights, layers.biases
    for step in range(roster.steps):
        if stop.is_set():
            raise Stopped
        if roster.widths[step] != width:
            width = roster.widths[step]
            w, b = [t[:width] for t in layers.weights], [t[:width] for t in layers.biases]
            for convolution in convolutions:
                convolution.narrow(width)
        x = samples.x.index_select(0, roster.reads[step, :width].reshape(-1))
        image = side_by_side(x.view(width, roster.batch, *samples.x.shape[1:]))
        for convolution in convolutions:
            image = convolution.forward(image)
        rows = laid_apart(image, width)
        flat = rows.flatten(2)
        if flat.shape[2] != chain.widths[0]:
            raise ConfigError(f"the convolutions give {flat.shape[2]} features, not {chain.widths[0]}")
        now = targets[step, :width], weights[step, :width], chosen[step, :width]
        error = take_step(flat, *now, w, b, biased, tanh, keep, rate, True)
        error = side_by_side(error.view(rows.shape))
        for i in reversed(range(len(convolutions))):
            error = convolutions[i].backward(error, i > 0, keep, rate)
        for row in roster.leaving.get(step, ()):
            parts = layers.parts(row)
            for convolution in convolutions:
                parts |= convolution.parts(row)
            vectors[row] = setting.layout.join(parts)
    return roster.updates(vectors, -chosen.squeeze(-1))
