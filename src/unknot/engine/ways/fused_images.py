"""Convolutional chains with plain SGD: as `fused`, with convolutions and max pools below it.

Small convolutions are products over the tiles of their pools (see `tiles`). For others, all rows' channels
lie side by side (an `Image`), so that one grouped convolution serves the stack. The large gradients of the
pools go to buffers that stay: fresh memory costs as much as computing on it.
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
from unknot.engine.ways.shelf import Shelf
from unknot.engine.ways.stack import Roster, Stacking
from unknot.engine.ways.tiles import TiledConvolution, Tiling, numbers_of, tilings_of
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


class Grouped:
    """The convolutions of a chain, all rows' channels side by side."""

    def __init__(self, chain: Chain, parts: dict[str, Tensor], batch: int) -> None:
        self.stages = [_Convolution(stage, parts) for stage in chain.stages]
        self.batch = batch

    def narrow(self, rows: int) -> None:
        """Compute with the first rows from now on."""
        self.rows = rows
        for stage in self.stages:
            stage.narrow(rows)

    def forward(self, x: Tensor) -> Tensor:
        """Features ``[rows, batch, features]`` of samples ``[rows * batch, channels, height, width]``."""
        image = side_by_side(x.view(self.rows, self.batch, *x.shape[1:]))
        for stage in self.stages:
            image = stage.forward(image)
        rows = laid_apart(image, self.rows)
        self.shape = rows.shape
        return rows.flatten(2)

    def backward(self, error: Tensor, keep: float, rate: float) -> None:
        """Take the step, with the gradient for the features."""
        error = side_by_side(error.view(self.shape))
        for i in reversed(range(len(self.stages))):
            error = self.stages[i].backward(error, i > 0, keep, rate)

    def parts(self, row: int) -> dict[str, Tensor]:
        """One row's weights by name."""
        return {name: part for stage in self.stages for name, part in stage.parts(row).items()}


class Tiled:
    """The same by products, samples last (see `tiles`)."""

    def __init__(self, tilings: Sequence[Tiling], like: Tensor, batch: int) -> None:
        self.stages = [TiledConvolution(tiling, like, batch, i > 0) for i, tiling in enumerate(tilings)]
        self.batch = batch

    def load(self, parts: dict[str, Tensor]) -> None:
        """Begin with these weights."""
        for stage in self.stages:
            stage.load(parts)

    def narrow(self, rows: int) -> None:
        self.rows = rows
        for stage in self.stages:
            stage.narrow(rows)

    def forward(self, x: Tensor) -> Tensor:
        image = x.view(self.rows, self.batch, *x.shape[1:]).permute(0, 2, 3, 4, 1)
        for stage in self.stages:
            image = stage.forward(image)
        return image.flatten(1, 3).transpose(1, 2)

    def backward(self, error: Tensor, keep: float, rate: float) -> None:
        error = error.transpose(1, 2)
        for stage in reversed(self.stages):
            error = stage.backward(error, keep, rate)

    def parts(self, row: int) -> dict[str, Tensor]:
        return {name: part for stage in self.stages for name, part in stage.parts(row).items()}


@torch.no_grad()
def train_fused_images(
    chain: Chain,
    lessons: Sequence[Lesson],
    samples: Samples,
    setting: Stacking,
    stop: Event,
    shelf: Shelf,
    row_bytes: int,
) -> list[tuple[Lesson, Update]]:
    """As `train_stack`, for a chain that starts with convolutions, and plain SGD, in so many bytes a row."""
    roster = Roster(lessons, setting)
    starts = roster.starts()
    parts = setting.layout.split(starts)
    most = row_bytes // setting.dtype.itemsize
    tilings = tilings_of(chain.stages, setting.layout, samples.x.shape[1:], roster.batch, most)
    if not tilings:
        return _train(chain, Grouped(chain, parts, roster.batch), starts, roster, samples, stop)
    sizes = tuple(tilings), len(starts), roster.batch
    taken = len(starts) * numbers_of(tilings, roster.batch) * setting.dtype.itemsize
    with shelf.lent(Tiled, sizes, taken, lambda: Tiled(tilings, starts, roster.batch)) as images:
        images.load(parts)
        return _train(chain, images, starts, roster, samples, stop)


def _train(
    chain: Chain, images: Grouped | Tiled, starts: Tensor, roster: Roster, samples: Samples, stop: Event
) -> list[tuple[Lesson, Update]]:
    job, setting = roster.lessons[0].job, roster.setting
    addition = only_adds(job.recipe, job.version)
    assert addition is not None
    keep, rate = addition
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
            images.narrow(width)
        flat = images.forward(samples.x.index_select(0, roster.reads[step, :width].reshape(-1)))
        if flat.shape[2] != chain.widths[0]:
            raise ConfigError(f"the convolutions give {flat.shape[2]} features, not {chain.widths[0]}")
        now = targets[step, :width], weights[step, :width], chosen[step, :width]
        images.backward(take_step(flat, *now, w, b, biased, tanh, keep, rate, True), keep, rate)
        for row in roster.leaving.get(step, ()):
            vectors[row] = setting.layout.join(layers.parts(row) | images.parts(row))
    return roster.updates(vectors, -chosen.squeeze(-1))
