"""Made weights and batches: what an engine tries things on, so that nothing it decides depends on data.

They are drawn from a key of their own, by shapes and types alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from unknot.core.base import trained
from unknot.core.data import Samples
from unknot.core.keys import Key
from unknot.core.samples import IGNORED
from unknot.core.weights import Layout, Weights

_KEY = Key.root(0).child("made by the engine")
SCALES = (1.0, 16.0, 1 / 16, 256.0)
"""By so much samples are larger than one another where a loss is looked at."""


@dataclass(frozen=True)
class Form:
    """All that a decision may know of samples: shapes, types, kind, and how many classes there are."""

    inputs: tuple[int, ...]
    targets: tuple[int, ...]
    dtype: torch.dtype
    classes: int
    kind: str = "classes"

    @staticmethod
    def of(samples: Samples) -> Form:
        shapes = tuple(samples.x.shape[1:]), tuple(samples.y.shape[1:])
        return Form(*shapes, samples.x.dtype, samples.classes, samples.kind)

    @property
    def flat(self) -> bool:
        return len(self.inputs) == 1

    @property
    def texts(self) -> bool:
        return self.kind == "classes" and bool(self.targets)


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
        first = next(iter(trained(model).values()))
        tables = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
        if form.kind == "classes":
            tables.append(form.classes)
        return Maker(Layout.of(model), form, min(tables, default=2), first.device, first.dtype)

    def weights(self, name: str) -> Weights:
        """Weights of an ordinary size: of variance 1 / inputs in a matrix or kernel, positive in a vector.

        (With a positive bias few units are at rest: where all are, no gradient comes through.)
        """
        drawn = _KEY.child("weights", name).generator().standard_normal(self.layout.size, dtype=np.float32)
        vector = torch.from_numpy(drawn).to(device=self.device, dtype=self.dtype)
        for part in self.layout.split(vector).values():
            if part.dim() > 1:
                part.mul_(1 / math.sqrt(max(1, math.prod(part.shape[1:]))))
            else:
                part.abs_().mul_(0.5)
        return Weights(vector, self.layout)

    def samples(self, name: str, count: int) -> Samples:
        """Inputs in 0..1, as pixels are (or words), with targets of every class, or values in 0..1."""
        form, key = self.form, _KEY.child("samples", name)
        shape = count, *form.inputs
        if form.dtype.is_floating_point:
            x = torch.from_numpy(key.child("x").generator().random(shape, dtype=np.float32))
        else:
            x = torch.from_numpy(key.child("x").generator().integers(0, self.words, shape))
        draw, shape = key.child("y").generator(), (count, *form.targets)
        if form.kind == "values":
            y = torch.from_numpy(draw.random(shape)).to(self.dtype)
        elif form.kind == "labels":
            y = torch.from_numpy(draw.integers(0, 2, shape)).to(self.dtype)
        else:
            y = torch.from_numpy(draw.integers(0, form.classes, shape))
        return Samples(x.to(device=self.device, dtype=form.dtype), y.to(self.device), form.classes, form.kind)

    def wide(self, name: str, count: int) -> Samples:
        """The same far beyond 0..1, on both sides: what only ever keeps a maximum shows here."""
        made = self.samples(name, count)
        x = 64 * made.x - 32 if made.x.is_floating_point() else made.x
        return replace(made, x=x)

    def varied(self, name: str, count: int) -> Samples:
        """The same with targets as data may have them: samples differ in what a loss may count.

        Two classes alone; positions of a text masked, from none in the first sample to all in the last; no
        label at all, or every one; values of both signs and of scales from 1/16 to 256.
        """
        made = self.samples(name, count)
        draw = _KEY.child("varied", name).generator()
        if self.form.kind == "values":
            scale = torch.tensor(SCALES, dtype=torch.float64).repeat(count)[:count]
            scale = scale.view(count, *[1] * len(self.form.targets))
            y = torch.from_numpy(draw.standard_normal((count, *self.form.targets))) * scale
        elif self.form.kind == "labels":
            y = made.y.clone()
            y[0::4], y[1::4] = 0, 1
        else:
            few = draw.choice(self.form.classes, min(2, self.form.classes), replace=False)
            y = torch.from_numpy(draw.choice(few, (count, *self.form.targets)))
            if self.form.texts:
                share = np.linspace(0, 1, count)[:, None]
                y[torch.from_numpy(draw.random(y.shape) < share)] = IGNORED
        return replace(made, y=y.to(made.y))

    def spoilt(self, count: int, value: float) -> Samples:
        """Samples that hold nothing but this number (words stay words)."""
        made = self.samples("spoilt", count)
        x = torch.full_like(made.x, value) if made.x.is_floating_point() else made.x
        return replace(made, x=x)


def together(parts: list[Samples]) -> Samples:
    return parts[0].extended(*parts[1:])
