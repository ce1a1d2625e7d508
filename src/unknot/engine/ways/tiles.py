"""Convolutions as products: the outputs that a max pool takes together, a tile, are computed together.

Samples lie last in memory, ``[rows, channels, height, width, batch]``. A tile reads a window of its image: of
a 2×2 pool after 5×5 kernels, 6×6 pixels. The windows of all tiles, copied side by side (`read`), times
kernels that lie at each place of a window (`wide`) give all outputs in one product a row, and two more give
the gradients. That is more operations than a convolution has (36/25 here) on fewer numbers to copy (9 a
pixel, not 25), in products large enough to come near to the processor's peak; a pool is then a maximum of
whole tensors. Biases are one more row of kernels, for windows that are all ones.

An image lies in blocks, so that what windows share is copied and added in long runs: pixels that are in the
same place of a tile lie together. Buffers stay over the steps: fresh memory costs as much as computing
on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from unknot.core.weights import Layout
from unknot.engine.bits import stable
from unknot.engine.layers.stage import Stage

aten: Any = torch.ops.aten
Pair = tuple[int, int]

# Below this many samples in a batch, and from this many kernels, convolutions by oneDNN are faster.
FEW_SAMPLES = 16
MANY_KERNELS = 32 * 32
LARGE_WINDOWS = 4  # times a kernel's size


@dataclass(frozen=True)
class Tiling:
    """The sizes of a stage for images of one shape and one group of channels; pairs are (height, width)."""

    stage: Stage
    channels: int
    outputs: int
    image: Pair
    kernel: Pair
    tile: Pair

    @staticmethod
    def of(stage: Stage, weight: Sequence[int], shape: Sequence[int]) -> Tiling | None:
        """For images ``(channels, height, width)``; None without a pool, and where pools overlap.

        Kernels that skip pixels are not for tiles: their windows would be mostly zeros, and a pixel that no
        kernel reads would be read, which matters where it is no number.
        """
        if stage.pool is None or stage.stride != (1, 1) or stage.dilation != (1, 1):
            return None
        (high, wide), step, padding, dilation = stage.pool
        tile = high, wide
        if tile == (1, 1) or step != tile or padding != (0, 0) or dilation != (1, 1):
            return None
        outputs, channels, *kernel = weight
        if channels * stage.groups != shape[0] or channels * outputs > MANY_KERNELS:
            return None
        sizes = (shape[1], shape[2]), (kernel[0], kernel[1]), tile
        made = Tiling(stage, channels, outputs // stage.groups, *sizes)
        if min(made.tiles) < 1 or prod(made.window) > LARGE_WINDOWS * prod(made.kernel):
            return None
        return made

    @cached_property
    def tiles(self) -> Pair:
        high, wide = map(self._tiles, range(2))
        return high, wide

    def _tiles(self, axis: int) -> int:
        return (self.image[axis] + 2 * self.stage.padding[axis] - self._least(axis)) // self.tile[axis] + 1

    def _least(self, axis: int) -> int:
        """What a tile reads."""
        return self.tile[axis] + self.kernel[axis] - 1

    @cached_property
    def blocks(self) -> Pair:
        """Tiles in a window: it is as large as what a tile reads, rounded up to whole tiles."""
        return -(-self._least(0) // self.tile[0]), -(-self._least(1) // self.tile[1])

    @cached_property
    def window(self) -> Pair:
        return self.blocks[0] * self.tile[0], self.blocks[1] * self.tile[1]

    @cached_property
    def grid(self) -> Pair:
        """Tiles in an image, as far as it is read."""
        return self.tiles[0] + self.blocks[0] - 1, self.tiles[1] + self.blocks[1] - 1

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """What comes out, as the next stage takes it."""
        return self.stage.groups * self.outputs, *self.tiles

    def numbers(self, batch: int, further: bool) -> int:
        """How many a row of `TiledConvolution` takes."""
        spots, outputs = prod(self.tiles) * batch, prod(self.tile) * self.outputs
        pixels = prod(self.window) * self.channels
        blocks = self.channels * prod(self.tile) * prod(self.grid) * batch
        below = pixels * spots + blocks + self.channels * prod(self.image) * batch if further else 0
        one = (pixels + 1) * (2 * outputs + spots) + (outputs + 3 * self.outputs) * spots + blocks + below
        return self.stage.groups * one

    def pixels(self, axis: int, place: int) -> tuple[slice, slice]:
        """The pixels that are in one place of a tile: where they are in an image, and in blocks."""
        step, padding = self.tile[axis], self.stage.padding[axis]
        first = max(0, -(-(padding - place) // step))
        pixel = first * step + place - padding
        count = max(0, min(self.grid[axis] - first, -(-(self.image[axis] - pixel) // step)))
        return slice(pixel, pixel + count * step, step), slice(first, first + count)


def tilings_of(
    stages: Sequence[Stage], layout: Layout, shape: Sequence[int], batch: int, most: int
) -> list[Tiling] | None:
    """Those of all stages for images ``(channels, height, width)``; None where one of them has none.

    Nor are there any where a row would take more than `most` numbers.
    """
    if batch < FEW_SAMPLES:
        return None
    shapes = dict(zip(layout.names, layout.shapes, strict=True))
    tilings: list[Tiling] = []
    for stage in stages:
        tiling = Tiling.of(stage, shapes[stage.weight], shape)
        if tiling is None:
            return None
        tilings.append(tiling)
        shape = tiling.shape
    return tilings if numbers_of(tilings, batch) <= most else None


def numbers_of(tilings: Sequence[Tiling], batch: int) -> int:
    """How many a row of all of them takes; there is no gradient for the first one's images."""
    return sum(tiling.numbers(batch, further=place > 0) for place, tiling in enumerate(tilings))


class TiledConvolution:
    """The kernels of a stage of many rows, at each place of a window, and one step of it.

    Without `further`, there is no gradient for the images.
    """

    def __init__(self, tiling: Tiling, like: Tensor, batch: int, further: bool) -> None:
        t, rows = tiling, len(like)
        self.tiling, self.batch, self.further = tiling, batch, further
        groups, outputs, spots = rows * t.stage.groups, prod(t.tile) * t.outputs, prod(t.tiles) * batch
        pixels = prod(t.window) * t.channels
        columns = pixels + (t.stage.bias is not None)
        self.all_wide = _matrices(like, groups, columns, outputs).zero_()
        self.all_gradients = _matrices(like, groups, columns, outputs)
        self.all_read = _matrices(like, groups, columns, spots).fill_(1.0)
        self.all_made = _matrices(like, groups, outputs, spots)
        self.all_best, *self.all_spare = (like.new_empty(groups, t.outputs, spots) for _ in range(3))
        self.all_blocks = like.new_zeros(groups, t.channels, *t.tile, *t.grid, batch)
        if further:
            self.all_below = _matrices(like, groups, pixels, spots)
            self.all_folded = torch.empty_like(self.all_blocks)
            self.all_images = like.new_zeros(groups, t.channels, *t.image, batch)

    def load(self, parts: dict[str, Tensor]) -> None:
        """Begin with these weights, by name ``[rows, ...]``."""
        t, groups = self.tiling, len(self.all_wide)
        kernels = parts[t.stage.weight].reshape(groups, 1, 1, t.outputs, t.channels, *t.kernel)
        self._kernels(self.all_wide).copy_(kernels)
        if t.stage.bias is not None:
            self._biases(self.all_wide).copy_(parts[t.stage.bias].reshape(groups, 1, 1, t.outputs))

    def narrow(self, rows: int) -> None:
        """Compute with the first rows from now on."""
        t, n, size = self.tiling, rows * self.tiling.stage.groups, self.batch
        pixels = prod(t.window) * t.channels
        self.wide, self.gradients, self.read, self.made, self.best = (
            every[:n]
            for every in (self.all_wide, self.all_gradients, self.all_read, self.all_made, self.all_best)
        )
        self.spare = [spare[:n] for spare in self.all_spare]
        self.by_place = self.made.view(n, -1, *self.best.shape[1:])
        self.places = self.by_place.unbind(1)
        # Where errors that are not yet placed lie, in turn; what is left at the end is the last place's.
        self.lefts = [self.spare[(place + 1) % 2] for place in range(len(self.places) - 2)] + [
            self.places[-1]
        ]
        blocks = self.all_blocks[:n]
        run, line, plane = t.tiles[1] * size, t.grid[1] * size, prod(t.grid) * size
        windows = blocks.as_strided(
            (n, t.blocks[0], t.tile[0], t.blocks[1], t.tile[1], t.channels, t.tiles[0], run),
            (blocks.stride(0), line, t.tile[1] * plane, size, plane, blocks.stride(1), line, 1),
        )
        self.windows = self.read[:, :pixels].view(windows.shape), windows
        self.filling = self._filling(blocks)
        self.steps = [(self._kernels(self.wide), self._by_place(self._kernels(self.gradients)))]
        if t.stage.bias is not None:
            self.steps.append((self._biases(self.wide), self._by_place(self._biases(self.gradients))))
        if self.further:
            self.below, self.folded, self.images = (
                self.all_below[:n],
                self.all_folded[:n],
                self.all_images[:n],
            )
            self.emptying = self._filling(self.folded)
            shape = (n, t.blocks[0], t.tile[0], t.blocks[1], t.tile[1], t.channels, *t.tiles, size)
            below, (high, wide) = self.below.view(shape).permute(0, 1, 3, 5, 2, 4, 6, 7, 8), t.tiles
            self.folding = [
                (self.folded[:, :, :, :, i : i + high, j : j + wide], below[:, i, j])
                for i, j in product(*map(range, t.blocks))
            ]

    def forward(self, x: Tensor) -> Tensor:
        """From ``[rows, channels, height, width, batch]`` to the same."""
        t = self.tiling
        x = x.reshape(len(self.wide), t.channels, *t.image, self.batch)
        for blocks, pixels in self.filling:
            blocks.copy_(x[pixels])
        read, windows = self.windows
        read.copy_(windows)
        torch.bmm(self.wide.transpose(1, 2), self.read, out=self.made)
        torch.amax(self.by_place, 1, out=self.best)
        if t.stage.relu:
            self.best.relu_()
        return self.best.view(-1, *t.shape, self.batch)

    def backward(self, error: Tensor, keep: float, rate: float) -> Tensor:
        """Take the step; gives the gradient for the images, if it is to go further down."""
        left = error.reshape(self.best.shape)
        if self.tiling.stage.relu:
            left = _where_positive(left, self.best, self.spare[0])
        # The first of the largest has the error: what is not the first's is left for the others.
        for here, others in zip(self.places[:-1], self.lefts, strict=True):
            torch.sub(self.best, here, out=here)
            _where_positive(left, here, others)
            torch.sub(left, others, out=here)
            left = others
        if self.further:
            self._fold()
        torch.bmm(self.read, self.made.transpose(1, 2), out=self.gradients)
        for values, (first, *more) in self.steps:
            total = sum(more, start=first)
            if keep != 1.0:
                values.mul_(keep)
            values.add_(total[:, None, None], alpha=rate)
        return self.images if self.further else error

    def _fold(self) -> None:
        """The gradient for the images: that for every window, added up where they overlap."""
        torch.bmm(self.wide[:, : self.below.shape[1]], self.made, out=self.below)
        self.folded.zero_()
        for blocks, windows in self.folding:
            blocks.add_(windows)
        for blocks, pixels in self.emptying:
            self.images[pixels].copy_(blocks)

    def parts(self, row: int) -> dict[str, Tensor]:
        stage = self.tiling.stage
        own = slice(row * stage.groups, (row + 1) * stage.groups)
        parts = {stage.weight: self._kernels(self.all_wide)[own, 0, 0].flatten(0, 1)}
        if stage.bias is not None:
            parts[stage.bias] = self._biases(self.all_wide)[own, 0, 0].flatten()
        return parts

    def _filling(self, blocks: Tensor) -> list[tuple[Tensor, tuple[slice, ...]]]:
        """For each place of a tile, its pixels in blocks, and where they are in images."""
        filling: list[tuple[Tensor, tuple[slice, ...]]] = []
        for i, j in product(*map(range, self.tiling.tile)):
            (high, down), (wide, right) = self.tiling.pixels(0, i), self.tiling.pixels(1, j)
            filling.append((blocks[:, :, i, j, down, right], (slice(None), slice(None), high, wide)))
        return filling

    def _kernels(self, matrices: Tensor) -> Tensor:
        """Where the kernels lie, ``[groups, *tile, outputs, channels, *kernel]``."""
        t, row = self.tiling, matrices.stride(1)
        pixel, line = t.channels * row, t.window[1] * t.channels * row
        return matrices.as_strided(
            (len(matrices), *t.tile, t.outputs, t.channels, *t.kernel),
            (
                matrices.stride(0),
                t.tile[1] * t.outputs + line,
                t.outputs + pixel,
                1,
                row,
                line,
                pixel,
            ),
        )

    def _biases(self, matrices: Tensor) -> Tensor:
        """Where the biases lie, ``[groups, *tile, outputs]``."""
        return matrices[:, -1].view(len(matrices), *self.tiling.tile, self.tiling.outputs)

    def _by_place(self, values: Tensor) -> list[Tensor]:
        return [values[:, i, j] for i, j in product(*map(range, self.tiling.tile))]


def _matrices(like: Tensor, count: int, lines: int, width: int) -> Tensor:
    """Room for ``[count, lines, width]``, every matrix of it on a cache line (see `stable`)."""
    room = stable.pad_up(lines * width, stable.LINE // like.element_size())
    return like.new_empty(count, room)[:, : lines * width].view(count, lines, width)


def _where_positive(values: Tensor, where: Tensor, out: Tensor) -> Tensor:
    """The values where another tensor is positive, zero elsewhere."""
    result: Tensor = aten.threshold_backward.grad_input(values, where, 0, grad_input=out)
    return result
