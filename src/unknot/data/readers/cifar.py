"""The binary versions of CIFAR-10 and CIFAR-100: records of label bytes and 3 × 32 × 32 pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from unknot.core.data import Samples
from unknot.core.errors import ConfigError, nearest
from unknot.data import pixels
from unknot.data.dataset import Dataset
from unknot.data.files import read_bytes, reading
from unknot.data.pixels import Scale

Files = Mapping[str, Path]
PIXELS = 3 * 32 * 32
CIFAR10 = "cifar-10-batches-bin"
CIFAR100 = "cifar-100-binary"
TRAIN10 = tuple(f"{CIFAR10}/data_batch_{i}.bin" for i in range(1, 6))
TEST10 = f"{CIFAR10}/test_batch.bin"
# A record of CIFAR-100 begins with the coarse label, then comes the fine one.
LABELS100 = {"coarse": (0, 20), "fine": (1, 100)}


def _samples(
    paths: Sequence[Path], column: int, labels: int, classes: int, scale: Scale, normalize: str
) -> Samples:
    batches = []
    for path in paths:
        with reading(path):
            batches.append(np.frombuffer(read_bytes(path), np.uint8).reshape(-1, labels + PIXELS))
    # Joined as bytes: the floats take four times as much, and are made once.
    every = np.concatenate(batches)
    images = torch.from_numpy(every[:, labels:]).reshape(-1, 3, 32, 32)
    targets = torch.from_numpy(every[:, column].astype(np.int64))
    return Samples(scale.apply(images, normalize), targets, classes)


def cifar10(files: Files, *, normalize: str = "standard") -> Dataset:
    """Photographs of 32 × 32 pixels, 10 kinds.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    train = _samples([files[name] for name in TRAIN10], 0, 1, 10, pixels.CIFAR10, normalize)
    test = _samples([files[TEST10]], 0, 1, 10, pixels.CIFAR10, normalize)
    return Dataset("cifar10", train, test)


def cifar100(files: Files, *, normalize: str = "standard", labels: str = "fine") -> Dataset:
    """Photographs of 32 × 32 pixels.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    `labels`: the 100 "fine" classes or the 20 "coarse" ones.
    """
    if labels not in LABELS100:
        raise ConfigError(f"labels is 'fine' or 'coarse', not {labels!r}.{nearest(labels, LABELS100)}")
    column, classes = LABELS100[labels]
    train, test = (
        _samples([files[f"{CIFAR100}/{part}.bin"]], column, 2, classes, pixels.CIFAR100, normalize)
        for part in ("train", "test")
    )
    return Dataset("cifar100", train, test)
