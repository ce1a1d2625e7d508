"""A language model as a file holds it.

Its tensors come one by one, by the names that our definitions have, so that a model is in memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from unknot.core.errors import ConfigError, DataError, UnknotError
from unknot.models.causal import LanguageModel

SCORE = "score.weight"
"""The layer that a folder for classification has in place of a head."""


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its shape, and how to read it."""

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within: whatever is wrong with a file is a `DataError` that names it."""
    try:
        yield
    except UnknotError:
        raise
    except Exception as error:  # of many kinds, by what is wrong with the file
        told = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} holds no language model that can be read ({told})") from error


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: how to make the model, and how to read each of its parameters."""

    path: Path
    make: Callable[[], LanguageModel]
    tensors: Mapping[str, Stored]
    context: int | None = None
    """The longest text that it has positions for, or was trained on; None: it does not say."""

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        with torch.device("meta"):
            return self.make().vocabulary

    def model(
        self, dtype: torch.dtype, pad: int | None, answers: Sequence[int], classes: int | None
    ) -> LanguageModel:
        """The model, its numbers in this precision: for tokens, for these answers, or for so many classes."""
        stored = self.tensors.get(SCORE)
        if stored is not None and stored.shape[0] != classes:
            raise ConfigError(
                f"pretrained: {self.path} is for classification, into {stored.shape[0]} classes; asked for "
                f"{classes or 'tokens'}"
            )
        model = self._plain(dtype)
        if pad is None:
            return model
        if classes is None:
            return model.answering(answers, pad)
        model.scoring(classes, pad)
        if stored is not None and model.score is not None:
            with torch.no_grad():
                model.score.weight.copy_(stored.read())
            model.fresh = ()
        return model

    def _plain(self, dtype: torch.dtype) -> LanguageModel:
        with reading(self.path), torch.device("meta"):  # nothing is drawn that is overwritten
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
        if name not in self.tensors:
            raise DataError(f"{self.path}: the tensor {name!r} is missing")
        if (found := self.tensors[name].shape) != tuple(shape):
            raise DataError(f"{self.path}: the tensor {name!r} is of shape {found}, not {tuple(shape)}")
        with reading(self.path):
            return self.tensors[name].read()


def halved(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head, from pairs side by side to the first of all pairs and then the second."""
    if weight.shape[0] % (2 * heads):
        return weight  # of another shape than it should be, which is told later
    return weight.view(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
