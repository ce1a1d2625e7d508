"""Purchase-100 and Location-30 as privacytrustlab publishes them: a label, then bits, a row each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError
from unknot.core.keys import Key
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import read_bytes, reading

Files = Mapping[str, Path]


def read_bits(path: Path, features: int) -> tuple[NDArray[np.uint8], Ints]:
    """Bits ``[n, features]`` and labels as they stand in the file."""
    lines, tail = read_bytes(path).split(), 2 * features  # a comma and a digit for each bit
    with reading(path):
        labels = np.asarray([int(line[:-tail].strip(b'"')) for line in lines], dtype=np.int64)
        cells = np.frombuffer(b"".join(line[-tail:] for line in lines), np.uint8).reshape(-1, features, 2)
        bits = cells[..., 1] - np.uint8(ord("0"))
        if (cells[..., 0] != ord(",")).any() or bits.max() > 1:
            raise ValueError(f"expected a label and {features} bits in each row")
    return bits, labels


def _test_rows(labels: Ints, share: float, key: Key) -> NDArray[np.bool_]:
    """A share of every class, rounded, drawn by key: the originals have no test part."""
    rows = np.arange(len(labels))
    order = np.lexsort((key.words(rows), labels))
    counts = np.bincount(labels)
    rank = rows - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(labels), dtype=np.bool_)
    chosen[order] = rank < np.repeat(np.floor(counts * share + 0.5), counts)
    return chosen


def _dataset(name: str, path: Path, features: int, classes: int, test_share: float, seed: int) -> Dataset:
    if not 0 < test_share < 1:
        raise ConfigError(f"{name}: test_share must lie between 0 and 1, not {test_share}")
    bits, labels = read_bits(path, features)
    labels -= 1
    with reading(path):
        test = _test_rows(labels, test_share, Key.root(seed).child("data", name, "test"))
    train_part, test_part = (
        Samples(torch.from_numpy(bits[mask].astype(np.float32)), torch.from_numpy(labels[mask]), classes)
        for mask in (~test, test)
    )
    return Dataset(name, train_part, test_part)


def purchase100(files: Files, *, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """Bits and a class a row.

    `test_share`: the share of every class that is the test part. `seed`: what it is drawn by.
    """
    return _dataset("purchase100", files["purchase100/dataset_purchase"], 600, 100, test_share, seed)


def location30(files: Files, *, test_share: float = 0.2, seed: int = 0) -> Dataset:
    """Bits and a class a row.

    `test_share`: the share of every class that is the test part. `seed`: what it is drawn by.
    """
    return _dataset("location30", files["location30/bangkok"], 446, 30, test_share, seed)
