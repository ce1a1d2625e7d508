"""The binary versions of CIFAR-10 and CIFAR-100: records of label bytes and 3 × 32 × 32 pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, nearest
from unknot.data import pixels
from unknot.data.dataset import Dataset
from unknot.data.files import check_labels, read_bytes, wrong
from unknot.data.pixels import Scale

Files = Mapping[str, Path]
PIXELS = 3 * 32 * 32
CIFAR10 = "cifar-10-batches-bin"
CIFAR100 = "cifar-100-binary"
TRAIN10 = tuple(f"{CIFAR10}/data_batch_{i}.bin" for i in range(1, 6))
TEST10 = f"{CIFAR10}/test_batch.bin"
# A record of CIFAR-100 begins with the coarse label, then comes the fine one.
LABELS100 = {"coarse": (0, 20), "fine": (1, 100)}


def _records(path: Path, labels: int) -> NDArray[np.uint8]:
    raw = read_bytes(path)
    size = labels + PIXELS
    if not raw or len(raw) % size:
        raise wrong(path, f"a multiple of {size} bytes (a record each)", f"{len(raw)} bytes")
    return np.frombuffer(raw, np.uint8).reshape(-1, size)


def _samples(
    paths: Sequence[Path], column: int, labels: int, classes: int, scale: Scale, normalize: str
) -> Samples:
    batches: list[NDArray[np.uint8]] = []
    for path in paths:
        records = _records(path, labels)
        if batches and len(records) != len(batches[0]):
            raise wrong(path, f"{len(batches[0])} records, as in {paths[0].name}", f"{len(records)}")
        check_labels(path, records[:, column], classes)
        batches.append(records)
    # Joined as bytes: the floats take four times as much, and are made once.
    every = np.concatenate(batches)
    images = torch.from_numpy(every[:, labels:]).reshape(-1, 3, 32, 32)
    targets = torch.from_numpy(every[:, column].astype(np.int64))
    return Samples(scale.apply(images, normalize), targets, classes)


def cifar10(files: Files, *, normalize: str = "standard") -> Dataset:
    """Photographs of 32 × 32 pixels, 10 kinds.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    pixels.check_normalize(normalize)
    train = _samples([files[name] for name in TRAIN10], 0, 1, 10, pixels.CIFAR10, normalize)
    test = _samples([files[TEST10]], 0, 1, 10, pixels.CIFAR10, normalize)
    return Dataset("cifar10", train, test)


def cifar100(files: Files, *, normalize: str = "standard", labels: str = "fine") -> Dataset:
    """Photographs of 32 × 32 pixels.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    `labels`: the 100 "fine" classes or the 20 "coarse" ones.
    """
    pixels.check_normalize(normalize)
    if labels not in LABELS100:
        raise ConfigError(f"labels is 'fine' or 'coarse', not {labels!r}.{nearest(labels, LABELS100)}")
    column, classes = LABELS100[labels]
    train, test = (
        _samples([files[f"{CIFAR100}/{part}.bin"]], column, 2, classes, pixels.CIFAR100, normalize)
        for part in ("train", "test")
    )
    return Dataset("cifar100", train, test)
