"""Made weights and batches: what an engine tries things on, so that nothing it decides depends on data.

They are drawn from a key of their own, by shapes and types alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unknot.core.data import Samples
from unknot.core.keys import Key
from unknot.core.weights import Layout, Weights

_KEY = Key.root(0).child("made by the engine")


@dataclass(frozen=True)
class Form:
    """All that a decision may know of samples: shapes, types, and how many classes there are."""

    inputs: tuple[int, ...]
    targets: tuple[int, ...]
    dtype: torch.dtype
    classes: int

    @staticmethod
    def of(samples: Samples) -> Form:
        shapes = tuple(samples.x.shape[1:]), tuple(samples.y.shape[1:])
        return Form(*shapes, samples.x.dtype, samples.classes)

    @property
    def flat(self) -> bool:
        return len(self.inputs) == 1

    @property
    def texts(self) -> bool:
        return bool(self.targets)


@dataclass(frozen=True)
class Maker:
    """Makes weights and samples for one model and one form of samples, where an engine computes."""

    layout: Layout
    form: Form
    words: int  # whole numbers as inputs are below this
    device: torch.device
    dtype: torch.dtype

    @staticmethod
    def of(model: nn.Module, form: Form) -> Maker:
        first = next(model.parameters())
        tables = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
        return Maker(Layout.of(model), form, min([form.classes, *tables]), first.device, first.dtype)

    def weights(self, name: str) -> Weights:
        """Weights of an ordinary size: of variance 1 / inputs in a matrix or kernel, 1/4 in a vector."""
        drawn = _KEY.child("weights", name).generator().standard_normal(self.layout.size, dtype=np.float32)
        vector = torch.from_numpy(drawn).to(device=self.device, dtype=self.dtype)
        for part in self.layout.split(vector).values():
            part.mul_(1 / math.sqrt(max(1, math.prod(part.shape[1:]))) if part.dim() > 1 else 0.5)
        return Weights(vector, self.layout)

    def samples(self, name: str, count: int) -> Samples:
        """Inputs in 0..1, as pixels are (or words), with targets of every class."""
        form, key = self.form, _KEY.child("samples", name)
        shape = count, *form.inputs
        if form.dtype.is_floating_point:
            x = torch.from_numpy(key.child("x").generator().random(shape, dtype=np.float32))
        else:
            x = torch.from_numpy(key.child("x").generator().integers(0, self.words, shape))
        y = torch.from_numpy(key.child("y").generator().integers(0, form.classes, (count, *form.targets)))
        return Samples(x.to(device=self.device, dtype=form.dtype), y.to(self.device), form.classes)

    def wide(self, name: str, count: int) -> Samples:
        """The same far beyond 0..1, on both sides: what only ever keeps a maximum shows here."""
        made = self.samples(name, count)
        x = 64 * made.x - 32 if made.x.is_floating_point() else made.x
        return Samples(x, made.y, made.classes)

    def spoilt(self, count: int, value: float) -> Samples:
        """Samples that hold nothing but this number (words stay words)."""
        made = self.samples("spoilt", count)
        x = torch.full_like(made.x, value) if made.x.is_floating_point() else made.x
        return Samples(x, made.y, made.classes)


def together(parts: list[Samples]) -> Samples:
    x: Tensor = torch.cat([part.x for part in parts])
    return Samples(x, torch.cat([part.y for part in parts]), parts[0].classes)
