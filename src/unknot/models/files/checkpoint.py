"""A language model as a file holds it.

Its tensors come one by one, by the names that our definitions have, so that a model is in memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from unknot.core.errors import DataError
from unknot.models.causal import LanguageModel

SCORE = "score.weight"
"""The layer that a folder for classification has in place of a head."""


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its shape, and how to read it."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: how to make the model, and how to read each of its parameters.

    What a file says of its sizes is held against its tensors first, so that a model that is made is no
    larger than its file: by the number of its `layers`, and by the shapes of its largest tensors (`outline`).
    """

    path: Path
    make: Callable[[], LanguageModel]
    tensors: Mapping[str, Stored]
    layers: int
    outline: Mapping[str, tuple[int, ...]]
    context: int | None = None
    """The longest text that it has positions for, or was trained on; None: it does not say."""

    def __post_init__(self) -> None:
        if self.layers > len(self.tensors):
            raise DataError(
                f"{self.path}: it says that it has {self.layers:,} layers, and there are {len(self.tensors)} "
                "tensors"
            )
        for name, shape in self.outline.items():
            self._check(name, shape)

    @property
    def score(self) -> Tensor | None:
        """The weights of its layer for classification, if it has one."""
        stored = self.tensors.get(SCORE)
        return None if stored is None else stored.read().float()

    def model(self, dtype: torch.dtype) -> LanguageModel:
        """The model, its numbers in this precision."""
        with torch.device("meta"):  # nothing is drawn that is overwritten
            model = self.make()
        shared: dict[int, nn.Parameter] = {}
        wanted = list(model.named_parameters(remove_duplicate=False))
        known = {name for name, _ in wanted} | {SCORE}
        if odd := [name for name in self.tensors if name not in known]:
            raise DataError(f"{self.path}: there is no place for its tensor {odd[0]!r} in such a model")
        for name, empty in wanted:
            if id(empty) not in shared:
                shared[id(empty)] = nn.Parameter(self._read(name, empty.shape).to(dtype))
            where, _, own = name.rpartition(".")
            setattr(model.get_submodule(where), own, shared[id(empty)])
        return model

    def _read(self, name: str, shape: torch.Size) -> Tensor:
        if name == "lm_head.weight" and name not in self.tensors and SCORE in self.tensors:
            return torch.zeros(shape)  # a classifier has none, and its place is taken
        self._check(name, tuple(shape))
        return self.tensors[name].read()

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self.tensors:
            raise DataError(f"{self.path}: the tensor {name!r} is missing")
        found = self.tensors[name].shape
        if found != shape:
            raise DataError(f"{self.path}: the tensor {name!r} is of shape {found}, not {shape}")


def halved(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head, from pairs side by side to the first of all pairs and then the second."""
    if weight.shape[0] % (2 * heads):
        return weight  # of another shape than it should be, which is told later
    return weight.view(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
