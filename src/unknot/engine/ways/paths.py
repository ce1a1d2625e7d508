"""Which way a model is trained: a rule by model, recipe and device, never by a stopwatch.

Two ways of computing the same differ in the last bits, so the choice is part of a run's definition.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from unknot.core.errors import ConfigError, nearest
from unknot.core.loss import Loss, OwnLoss
from unknot.core.training import Recipe, only_adds
from unknot.engine.layers.forms import Unsupported
from unknot.engine.layers.program import Program, trace
from unknot.engine.ways.chain import Chain, chain_of

Path = Literal["fused", "batched", "vmap", "loop"]

# From this many kernels in a convolution, one at a time keeps a processor busy, and a group of them does not.
MANY_KERNELS = 128 * 128


@dataclass(frozen=True)
class Choice:
    path: Path
    reason: str


class Paths:
    """What a model allows, and what is taken for a recipe."""

    def __init__(self, model: nn.Module, device: torch.device, dtype: torch.dtype, path: str) -> None:
        if path != "auto" and path not in get_args(Path):
            raise ConfigError(f"unknown path {path!r}.{nearest(path, ['auto', *get_args(Path)])}")
        self.device = device
        self.wanted = path
        self.program: Program | None = None
        self.twice: Program | None = None  # the same, to be differentiated twice
        self.chain: Chain | None = None
        self.why_not_batched = ""
        try:
            self.program, self.twice = trace(model), trace(model, twice=True)
        except Unsupported as error:
            self.why_not_batched = str(error)
        convolutions = [m for m in model.modules() if isinstance(m, nn.modules.conv._ConvNd)]
        self.convolutions = bool(convolutions)
        self.kernels = max((m.weight.shape[0] * m.weight.shape[1] for m in convolutions), default=0)
        if self.program is not None:
            self.chain = chain_of(model, self.program)
        if self.chain is not None and self.chain.stages and not self._convolves(dtype):
            self.chain = None
        if path == "batched" and self.program is None:
            raise ConfigError(f"path 'batched' cannot run this model: {self.why_not_batched}")
        if path == "fused" and self.chain is None:
            raise ConfigError(
                "path 'fused' is for chains of Conv2d, MaxPool2d, ReLU (in single precision on a CPU), "
                "then Flatten, Linear and ReLU (or Tanh)"
            )

    def _convolves(self, dtype: torch.dtype) -> bool:
        """Whether convolutions can be written out by hand: where one library runs them all, in groups."""
        return self.device.type == "cpu" and dtype == torch.float32 and self.kernels < MANY_KERNELS

    def choose(
        self,
        recipe: Recipe | None = None,
        *,
        flat: bool = True,
        fusible: bool = True,
        loss: Loss | None = None,
        unstable: Collection[Path] = (),
        why_not_vmap: str = "",
    ) -> Choice:
        """The path for a recipe (by default plain SGD) and a loss on samples that are flat vectors or not.

        `fusible` says whether they have one class each, and the loss is cross-entropy. `unstable` are
        paths on which company would change bits: they are not taken. Nor is vmap, where trying it has
        shown why not.
        """
        choice = self._choose(recipe, flat, fusible, loss, unstable, why_not_vmap)
        if not isinstance(loss, OwnLoss):
            return choice
        return Choice(choice.path, f"{choice.reason}; {loss.said()}")

    def _choose(
        self,
        recipe: Recipe | None,
        flat: bool,
        fusible: bool,
        loss: Loss | None,
        unstable: Collection[Path],
        why_not_vmap: str,
    ) -> Choice:
        plain = only_adds(recipe or Recipe()) is not None
        chained = self.chain is not None and fusible and (flat or self.chain.flattens)
        if self.wanted == "fused":
            if not plain or not chained:
                raise ConfigError(
                    "path 'fused' is for one class a sample, cross-entropy without weights or smoothing, and "
                    "steps that only add the gradient: SGD without momentum, at one rate, and nothing else "
                    "in the recipe that changes a step"
                )
            return Choice("fused", "asked for")
        if self.wanted != "auto":
            return Choice(self.wanted, "asked for")  # type: ignore[arg-type]
        if chained and plain and "fused" not in unstable:
            return Choice("fused", "a chain of layers with plain SGD")
        if isinstance(loss, OwnLoss) and loss.way == "loop":
            return Choice("loop", "a loss that cannot be stacked")
        if self.program is not None and "batched" not in unstable:
            if self.kernels >= MANY_KERNELS:
                return Choice("loop", "its convolutions are large enough to be run one at a time")
            return Choice("batched", "every layer has a batched rule")
        not_batched = self.why_not_batched or "its rows are not kept apart"
        if self.device.type == "cpu" and self.convolutions:
            return Choice("loop", f"not batched ({not_batched}), and vmap slows convolutions")
        if why := "its rows are not kept apart" if "vmap" in unstable else why_not_vmap:
            return Choice("loop", f"neither batched ({not_batched}) nor vmap ({why})")
        return Choice("vmap", f"not batched: {not_batched}")
