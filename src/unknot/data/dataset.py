"""A data set in memory: training and test samples, and who they come from where that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import DataError
from unknot.text.alphabet import Tokenizer

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples; with natural clients (writers, speakers) also the owner of each row."""

    name: str
    """What it is called."""
    train: Samples
    """Samples to train with."""
    test: Samples
    """Samples to test with."""
    train_owner: Ints | None = None
    """The owner of each training row, a number."""
    test_owner: Ints | None = None
    """The owner of each test row, a number."""
    owner_names: tuple[str, ...] = ()
    """Who these numbers are."""
    vocabulary: str | None = None
    """For text by characters: token t is its t-th character."""
    labels: tuple[str, ...] = ()
    """What the classes are called, where that is known."""
    tokenizer: Tokenizer | None = None
    """For text: what its tokens were made by."""
    by_name: bool = False
    """Whether natural clients go by the names of owners, in requests and in what is shown."""

    def __post_init__(self) -> None:
        if not len(self.train):
            raise DataError(f"{self.name}: there are no training samples")
        if unlike := self.train.unlike(self.test):
            raise DataError(f"{self.name}: training and test samples differ in shape or classes: {unlike}")
        if self.labels and len(self.labels) != self.classes:
            raise DataError(f"{self.name}: {self.classes} classes, but {len(self.labels)} names of classes")
        if (self.train_owner is None) != (self.test_owner is None):
            raise DataError(f"{self.name}: owners are given for one part only")
        for part, samples, owner in (
            ("training", self.train, self.train_owner),
            ("test", self.test, self.test_owner),
        ):
            if len(wrong := samples.mislabelled):
                raise DataError(f"{self.name}: {part} sample {wrong[0]}: {samples.flaw(int(wrong[0]))}")
            if owner is None:
                continue
            if len(owner) != len(samples):
                raise DataError(f"{self.name}: {len(samples)} {part} samples but {len(owner)} owners")
            if len(owner) and not 0 <= owner.min() <= owner.max() < len(self.owner_names):
                raise DataError(f"{self.name}: a {part} sample's owner has no name")

    def __repr__(self) -> str:
        owners = f", {len(self.owner_names)} owners" if self.owner_names else ""
        return f"Dataset({self.name!r}: {self.train!r} to train, {len(self.test)} to test{owners})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.train.x.shape[1:])

    @property
    def classes(self) -> int:
        return self.train.classes

    @property
    def labelled(self) -> bool:
        """Whether a sample has one class (text has a target for each character instead)."""
        return self.train.kind == "classes" and self.train.y.ndim == 1

    def owner_of(self, row: int) -> str:
        """The name of the owner of a training row."""
        if self.train_owner is None:
            raise DataError(f"{self.name} does not say whose its samples are")
        return self.owner_names[int(self.train_owner[row])]
