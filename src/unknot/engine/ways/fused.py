"""Multilayer perceptrons with plain SGD: forward, backward and update written out by hand.

A gradient is never stored: the product that gives it is added to the weights in the same call. Widths
are padded once, at the start, so that all matrices lie on cache lines (see `stable`): a padded unit has
zero weights and stays at zero, a padded class has a bias of −∞ and therefore a probability of zero.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from threading import Event, Lock
from typing import TypeVar

import torch
from torch import Tensor

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.jobs import Update
from unknot.core.training import only_adds
from unknot.core.weights import Layout
from unknot.engine.ways.chain import Chain
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.stack import Roster, Stacking
from unknot.engine.workers import Stopped

T = TypeVar("T")


class LinearLayers:
    """The stacked weights ``[rows, out, in]`` and biases ``[rows, 1, out]``, padded."""

    def __init__(self, chain: Chain, starts: Tensor, layout: Layout, batch: int) -> None:
        self.chain, self.layout = chain, layout
        self.widths = chain.padded(batch, starts.element_size())
        rows, last = len(starts), len(chain.weights) - 1
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        for layer, (into, out) in enumerate(pairwise(self.widths)):
            self.weights.append(starts.new_zeros(rows, out, into))
            self.biases.append(starts.new_full((rows, 1, out), -math.inf if layer == last else 0.0))
        self.load(starts)

    def load(self, starts: Tensor) -> None:
        """Put other weights into the first rows."""
        parts, rows = self.layout.split(starts), len(starts)
        for layer, (weight, bias) in enumerate(zip(self.chain.weights, self.chain.biases, strict=True)):
            into, out = self.chain.widths[layer], self.chain.widths[layer + 1]
            self.weights[layer][:rows, :out, :into] = parts[weight]
            self.biases[layer][:rows, 0, :out] = 0.0 if bias is None else parts[bias]

    def parts(self, row: int | slice) -> dict[str, Tensor]:
        """One row's weights by name, or those of several, without the padding."""
        parts: dict[str, Tensor] = {}
        for layer, (weight, bias) in enumerate(zip(self.chain.weights, self.chain.biases, strict=True)):
            into, out = self.chain.widths[layer], self.chain.widths[layer + 1]
            parts[weight] = self.weights[layer][row][..., :out, :into]
            if bias is not None:
                parts[bias] = self.biases[layer][row][..., 0, :out]
        return parts


@torch.no_grad()
def train_fused(
    chain: Chain, lessons: Sequence[Lesson], samples: Samples, setting: Stacking, stop: Event
) -> list[tuple[Lesson, Update]]:
    """As `train_stack`, for a chain and plain SGD."""
    job = lessons[0].job
    addition = only_adds(job.recipe, job.version)
    assert addition is not None
    keep, rate = addition
    roster = Roster(lessons, setting)
    batch = roster.batch
    layers = LinearLayers(chain, roster.starts(), setting.layout, batch)
    inputs = samples.x.flatten(1)
    if inputs.shape[1] != chain.widths[0]:
        raise ConfigError(f"samples have {inputs.shape[1]} features, the model takes {chain.widths[0]}")
    targets = samples.y.index_select(0, roster.reads.reshape(-1)).view(*roster.reads.shape, 1)
    chosen = torch.zeros_like(roster.weights).unsqueeze(-1)
    vectors: list[Tensor] = [torch.empty(0)] * len(roster.lessons)
    take_steps = scripted(steps) if setting.device.type == "cpu" else steps
    first = 0
    while first < roster.steps:
        if stop.is_set():
            raise Stopped
        last, width = roster.until(first), roster.widths[first]
        take_steps(
            inputs,
            roster.reads[first:last, :width],
            targets[first:last, :width],
            roster.weights[first:last, :width].unsqueeze(-1),
            chosen[first:last, :width],
            [t[:width] for t in layers.weights],
            [t[:width] for t in layers.biases],
            [bias is not None for bias in chain.biases],
            [activation == "tanh" for activation in chain.activations],
            keep,
            rate,
        )
        for row in roster.leaving.get(last - 1, ()):
            vectors[row] = setting.layout.join(layers.parts(row))
        first = last
    return roster.updates(vectors, -chosen.squeeze(-1))


def steps(
    inputs: Tensor,
    reads: Tensor,
    targets: Tensor,
    weights: Tensor,
    chosen: Tensor,
    w: list[Tensor],
    b: list[Tensor],
    biased: list[bool],
    tanh: list[bool],
    keep: float,
    rate: float,
) -> None:
    """Several steps of plain SGD in a row; changes `w`, `b` and `chosen` (the log-probabilities)."""
    width, batch = reads.size(1), reads.size(2)
    for step in range(reads.size(0)):
        x = inputs.index_select(0, reads[step].reshape(-1)).view(width, batch, -1)
        descend(x, targets[step], weights[step], chosen[step], w, b, biased, tanh, keep, rate, False)


def descend(
    x: Tensor,
    targets: Tensor,
    weights: Tensor,
    chosen: Tensor,
    w: list[Tensor],
    b: list[Tensor],
    biased: list[bool],
    tanh: list[bool],
    keep: float,
    rate: float,
    further: bool,
) -> Tensor:
    """One step of the linear layers; gives the gradient for `x`, if it is to go `further` down.

    Plain enough for TorchScript, which runs it without holding Python's lock: the workers do not wait
    for one another.
    """
    features = x.size(2)
    if w[0].size(2) > features:
        x = torch.constant_pad_nd(x, [0, w[0].size(2) - features])
    values = [x]
    for layer in range(len(w)):
        x = torch.baddbmm(b[layer], x, w[layer].transpose(1, 2))
        if layer < len(w) - 1:
            x = torch.tanh(x) if tanh[layer] else torch.relu_(x)
            values.append(x)
    # The gradient of a sample's cross-entropy: its probabilities, less one for its class.
    logs = torch.log_softmax(x, -1)
    chosen.copy_(logs.gather(-1, targets))
    error = logs.exp_()
    error.scatter_add_(-1, targets, torch.full([1], -1.0, dtype=x.dtype, device=x.device).expand_as(targets))
    error.mul_(weights)
    for back in range(len(w)):
        layer = len(w) - 1 - back
        value = values[layer]
        below = error
        if layer > 0:
            below = torch.bmm(error, w[layer])
        elif further:  # samples last: so it goes on without a copy
            below = torch.bmm(w[layer].transpose(1, 2), error.transpose(1, 2)).transpose(1, 2)
        w[layer].baddbmm_(error.transpose(1, 2), value, beta=keep, alpha=rate)
        if biased[layer]:
            if keep != 1.0:
                b[layer].mul_(keep)
            b[layer].add_(error.sum(1, keepdim=True), alpha=rate)
        error = below
        if layer > 0:
            if tanh[layer - 1]:
                error = below * (1 - value * value)
            else:
                error = torch.ops.aten.threshold_backward(below, value, 0)
    return error[:, :, :features]


_COMPILING = Lock()  # Python's parser fails where two threads are in it at once


@cache
def scripted(function: Callable[..., T]) -> Callable[..., T]:
    """A function as TorchScript; as it is where that is no longer to be had. The bits are the same."""
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            compiled: Callable[..., T] = torch.jit.script(function)
        except (RuntimeError, AttributeError, OSError):
            return function
    return compiled
