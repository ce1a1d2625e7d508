"""Samples, and the part of them that a client holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import DataError, ErasedDataError, nearest
from unknot.core.mapped import is_mapped, stored

KINDS = ("classes", "labels", "values")
IGNORED = -100
"""The target of a position in a text that is neither trained on nor counted."""
_EXPECTED = {
    "classes": "a tensor of whole numbers with one axis (two for text)",
    "labels": "a tensor of 0 and 1 with two axes: a row a sample, a column a label",
    "values": "a tensor of floating-point numbers with one axis, or two where a sample has several",
}
_CHUNK = 1 << 20
"""So many numbers are looked at in one go: a check needs no room of the data's own size."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets, one a row, of one of three kinds.

    "classes": numbers of classes, ``[n]``, or ``[n, t]`` for text, where `IGNORED` masks a position.
    "labels": several labels at once, ``[n, classes]`` of 0 and 1. "values": numbers to be predicted,
    ``[n]`` or ``[n, classes]``.
    """

    x: Tensor
    """Inputs, one a row."""
    y: Tensor
    """Targets, one a row."""
    classes: int
    """How many classes, labels or values there are."""
    kind: str = "classes"
    """What targets are: "classes", "labels" or "values"."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"there are no targets of kind {self.kind!r}.{nearest(str(self.kind), KINDS)}")
        if not _is_numbers(self.x) or not self.x.ndim:
            raise DataError(f"inputs must be a tensor of numbers, one a row; found {_described(self.x)}")
        if not self._fits():
            raise DataError(f"targets must be {_EXPECTED[self.kind]}; found {_described(self.y)}")
        if len(self.x) != len(self.y):
            raise DataError(f"{len(self.x)} inputs but {len(self.y)} targets")
        object.__setattr__(self, "classes", index(self.classes))
        wide = 1 if self.y.ndim == 1 else self.y.shape[1]
        if self.classes < 1 or (self.kind != "classes" and self.classes != wide):
            raise DataError(
                f"classes is {self.classes}, but there are {wide} targets per sample, or classes from 1"
            )

    def _fits(self) -> bool:
        """Whether the targets are of the type and the axes of their kind."""
        if not _is_numbers(self.y) or self.y.ndim not in (1, 2):
            return False
        if self.kind == "labels":
            return self.y.ndim == 2
        return self.y.is_floating_point() == (self.kind == "values")

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.x.shape[1:])) or "1"
        dtype = str(self.x.dtype).removeprefix("torch.")
        if self.kind == "classes":
            targets = f"{'text' if self.y.ndim > 1 else 'labels'} of {self.classes} classes"
        else:
            targets = f"{self.classes} {self.kind if self.classes > 1 else self.kind[:-1]} each"
        return f"Samples({len(self)} of {shape} {dtype}, {targets})"

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows: the one way in which training reads data."""
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def subset(self, rows: NDArray[np.int64]) -> Samples:
        places = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        return replace(self, x=self.x[places], y=self.y[places])

    def extended(self, *more: Samples) -> Samples:
        """These and further ones of the same kind, one after the other."""
        inputs, targets = ([getattr(part, axis) for part in (self, *more)] for axis in ("x", "y"))
        x = stored(inputs, self.x.dtype) if is_mapped(self.x) else torch.cat(inputs)
        return replace(self, x=x, y=torch.cat(targets))

    def random_targets(self, like: Tensor, generator: np.random.Generator) -> Tensor:
        """Targets drawn at random in place of some others (`like`), by nothing but these.

        Any class is as likely as any other, a label is there or not by the toss of a coin, values are
        normal draws with the mean and the spread of those before; masked positions stay masked.
        """
        if not len(like):
            return like
        if self.kind == "values":
            mean = like.double().mean(0)
            spread = (like.double() - mean).square().mean(0).sqrt()
            normal = torch.from_numpy(generator.standard_normal(like.shape))
            drawn = mean + torch.where(spread > 0, spread, 1.0) * normal
        else:
            most = self.classes if self.kind == "classes" else 2
            drawn = torch.from_numpy(generator.integers(0, most, like.shape))
        if self.kind == "classes" and like.ndim > 1:
            drawn = torch.where(like == IGNORED, like, drawn)
        return drawn.to(like.dtype)

    def unlike(self, others: Samples) -> str:
        """In what other samples are of another kind than these; nothing where they are alike."""
        for what, mine, theirs in (
            ("targets of kind", self.kind, others.kind),
            ("inputs of shape", tuple(self.x.shape[1:]), tuple(others.x.shape[1:])),
            ("targets of shape", tuple(self.y.shape[1:]), tuple(others.y.shape[1:])),
            ("classes:", self.classes, others.classes),
        ):
            if mine != theirs:
                return f"{what} {theirs}, not {mine}"
        if self.x.is_floating_point() != others.x.is_floating_point():
            return f"inputs of type {others.x.dtype}, not {self.x.dtype}"
        return ""

    @cached_property
    def mislabelled(self) -> NDArray[np.int64]:
        """The rows with a target that is none of its kind: no class, neither 0 nor 1, not finite."""
        wrong = self._wrong(self.y.detach())
        return np.flatnonzero((wrong.any(1) if wrong.ndim > 1 else wrong).cpu())

    def _wrong(self, targets: Tensor) -> Tensor:
        """Which of these targets are none of their kind."""
        if self.kind == "values":
            return ~targets.isfinite()
        if self.kind == "labels":
            return (targets != 0) & (targets != 1)
        labels = targets.to(torch.int64)
        wrong = (labels < 0) | (labels >= self.classes)
        return wrong & (labels != IGNORED) if labels.ndim > 1 else wrong

    @cached_property
    def flawed(self) -> NDArray[np.int64]:
        """The rows that nobody can learn from: mislabelled, or with a NaN or an infinity; looked for once."""
        found = [self.mislabelled]
        if self.x.is_floating_point() and self.x.numel():
            step = max(1, _CHUNK // self.x[0].numel())
            for first in range(0, len(self.x), step):
                part = self.x.detach()[first : first + step]
                if not part.sum().isfinite():  # or the sum of finite numbers has overflowed: look at each
                    finite = part.isfinite().reshape(len(part), -1).all(1)
                    found.append(first + np.flatnonzero(~finite.cpu()))
        return np.unique(np.concatenate(found))

    def flaw(self, row: int) -> str:
        """What is wrong with a flawed row, and what was expected."""
        targets, wrong = (part.reshape(-1) for part in (self.y[row], self._wrong(self.y[row : row + 1])))
        if not wrong.any():
            values = self.x[row].reshape(-1)
            place = int((~values.isfinite()).nonzero()[0])
            return f"feature {place} is {float(values[place])}, but features must be finite numbers"
        place = int(wrong.nonzero()[0])
        expected = {
            "classes": f"there are {self.classes} classes (0 to {self.classes - 1})",
            "labels": "labels are 0 or 1",
            "values": "values to predict must be finite numbers",
        }
        where = f" at position {place}" if len(targets) > 1 else ""
        return f"label {targets[place].item():g}{where}, but {expected[self.kind]}"


@dataclass(frozen=True, eq=False)
class Shard:
    """The training samples of one client.

    `rows` point into the shared `Samples`. `ids` name the samples within the client (0, 1, 2...
    as first dealt out, ascending): they stay when others are erased, and draws are keyed by them.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("rows", "ids"):
            array = np.asarray(getattr(self, name))
            if array.dtype.kind not in "iu" or array.ndim != 1:
                raise DataError(f"{name} must be whole numbers in an array with one axis; see Shard.of")
            if array.dtype != np.int64 or array is not getattr(self, name):
                object.__setattr__(self, name, array.astype(np.int64))
        if len(self.rows) != len(self.ids):
            raise DataError(f"{len(self.rows)} rows but {len(self.ids)} ids")

    @staticmethod
    def of(rows: Sequence[int] | NDArray[np.int64]) -> Shard:
        array = np.asarray(rows, dtype=np.int64).reshape(-1)
        return Shard(array, np.arange(len(array), dtype=np.int64))

    def __repr__(self) -> str:
        return f"Shard({len(self)} sample{'' if len(self) == 1 else 's'})"

    def __len__(self) -> int:
        return len(self.rows)

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the samples with these ids; raises for one that is not (or no longer) here."""
        places = np.searchsorted(self.ids, ids)
        if len(ids) and (places.max() >= len(self.ids) or (self.ids[places] != ids).any()):
            raise ErasedDataError(
                f"samples {sorted(set(ids.tolist()) - set(self.ids.tolist()))} are not here"
            )
        return self.rows[places]

    def without(self, ids: Iterable[int]) -> Shard:
        keep = ~np.isin(self.ids, np.asarray(list(ids), dtype=np.int64))
        return Shard(self.rows[keep], self.ids[keep])


def _is_numbers(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype != torch.bool and not value.is_complex()


def _described(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
