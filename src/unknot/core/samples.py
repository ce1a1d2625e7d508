"""Samples, and the part of them that a client holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.errors import DataError, ErasedDataError

_CHUNK = 1 << 20
"""So many numbers are looked at in one go: a check needs no room of the data's own size."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets, one a row. Targets are class numbers: ``[n]``, or ``[n, t]`` for text."""

    x: Tensor
    y: Tensor
    classes: int

    def __post_init__(self) -> None:
        if not _is_numbers(self.x, floating=True) or not self.x.ndim:
            raise DataError(f"inputs must be a tensor of numbers, one a row; found {_described(self.x)}")
        if not _is_numbers(self.y) or self.y.ndim not in (1, 2):
            raise DataError(
                "targets must be a tensor of whole numbers with one axis (two for text); "
                f"found {_described(self.y)}"
            )
        if len(self.x) != len(self.y):
            raise DataError(f"{len(self.x)} inputs but {len(self.y)} targets")
        whole = isinstance(self.classes, int | np.integer) and not isinstance(self.classes, bool)
        if not whole or self.classes < 1:
            raise DataError(f"classes must be a whole number of at least 1, not {self.classes!r}")
        object.__setattr__(self, "classes", int(self.classes))

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.x.shape[1:])) or "1"
        dtype = str(self.x.dtype).removeprefix("torch.")
        kind = "text" if self.y.ndim > 1 else "labels"
        return f"Samples({len(self)} of {shape} {dtype}, {kind} of {self.classes} classes)"

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows: the one way in which training reads data."""
        return self.x.index_select(0, rows), self.y.index_select(0, rows)

    def subset(self, rows: NDArray[np.int64]) -> Samples:
        index = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        return Samples(self.x[index], self.y[index], self.classes)

    def unlike(self, others: Samples) -> str:
        """In what other samples are of another kind than these; nothing where they are alike."""
        for what, mine, theirs in (
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
        """The rows with a label that is none of the classes; looked for once."""
        found = []
        for first, part in _chunks(self.y):
            labels = part.to(torch.int64)
            low, high = torch.aminmax(labels)
            if low < 0 or high >= self.classes:
                wrong = ((labels < 0) | (labels >= self.classes)).reshape(len(part), -1).any(1)
                found.append(first + wrong.nonzero().flatten().cpu().numpy())
        return _joined(found)

    @cached_property
    def flawed(self) -> NDArray[np.int64]:
        """The rows that nobody can learn from: mislabelled, or with a NaN or an infinity; looked for once."""
        found = [self.mislabelled]
        if self.x.is_floating_point():
            parts = list(_chunks(self.x.detach()))
            # A sum that is finite has finite terms; one that is not may have overflowed: look again.
            finite = torch.stack([part.sum() for _, part in parts]).isfinite().tolist() if parts else []
            for (first, part), sound in zip(parts, finite, strict=True):
                if not sound:
                    wrong = ~part.isfinite().reshape(len(part), -1).all(1)
                    found.append(first + wrong.nonzero().flatten().cpu().numpy())
        return _joined(found)

    def flaw(self, row: int) -> str:
        """What is wrong with a flawed row, and what was expected."""
        labels = self.y[row].reshape(-1).tolist()
        for place, label in enumerate(labels):
            if not 0 <= label < self.classes:
                where = f" at position {place}" if self.y.ndim > 1 else ""
                return f"label {label}{where}, but there are {self.classes} classes (0 to {self.classes - 1})"
        values = self.x[row].detach().reshape(-1)
        place = int((~values.isfinite()).nonzero()[0])
        return f"feature {place} is {float(values[place])}, but features must be finite numbers"


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
            array = getattr(self, name)
            if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
                object.__setattr__(self, name, array.astype(np.int64, copy=False))

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

    @cached_property
    def flaw(self) -> str | None:
        """What is wrong with rows or ids in themselves, if anything is; looked for once."""
        for name, array in (("rows", self.rows), ("ids", self.ids)):
            if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != 1:
                kind = f"{array.dtype} array" if isinstance(array, np.ndarray) else type(array).__name__
                return f"{name} must be whole numbers in an array with one axis, found {kind}; see Shard.of"
        if len(self.rows) != len(self.ids):
            return f"{len(self.rows)} rows but {len(self.ids)} ids"
        if len(self.ids) and self.ids[0] < 0:
            return f"ids are 0 or more, found {self.ids[0]}"
        falls = np.flatnonzero(np.diff(self.ids) <= 0)
        if len(falls):
            return f"ids must ascend, found {self.ids[falls[0] + 1]} after {self.ids[falls[0]]}"
        return None


def _is_numbers(value: object, floating: bool = False) -> bool:
    """Whether it is a tensor of whole numbers; or, if allowed, of floating-point ones."""
    if not isinstance(value, Tensor) or value.dtype == torch.bool or value.is_complex():
        return False
    return floating or not value.is_floating_point()


def _described(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"


def _chunks(values: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Some rows at a time, as views, each with the number of its first row."""
    if values.numel():
        step = max(1, _CHUNK // max(1, values[0].numel()))
        for first in range(0, len(values), step):
            yield first, values[first : first + step]


def _joined(rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=np.int64)
