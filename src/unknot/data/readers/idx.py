"""The idx format of MNIST and Fashion-MNIST, gzipped or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.data import pixels
from unknot.data.dataset import Dataset
from unknot.data.files import read_bytes, read_npz, reading
from unknot.data.pixels import Scale

Files = Mapping[str, Path]


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes with so many dimensions."""
    raw = read_bytes(path)
    with reading(path):
        if raw[:4] != bytes((0, 0, 8, dimensions)):
            raise ValueError(f"no idx file of bytes with {dimensions} dimensions")
        shape = np.frombuffer(raw, ">u4", dimensions, 4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _images(name: str, files: Files, folder: str, scale: Scale, normalize: str) -> Dataset:
    def part(prefix: str) -> Samples:
        images = read_idx(files[f"{folder}/raw/{prefix}-images-idx3-ubyte"], 3)
        labels = read_idx(files[f"{folder}/raw/{prefix}-labels-idx1-ubyte"], 1)
        x = scale.apply(torch.from_numpy(images[:, None].copy()), normalize)
        return Samples(x, torch.from_numpy(labels.astype(np.int64)), 10)

    return Dataset(name, part("train"), part("t10k"))


def mnist(files: Files, *, normalize: str = "standard") -> Dataset:
    """Handwritten digits of 28 × 28 pixels.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    return _images("mnist", files, "MNIST", pixels.MNIST, normalize)


def fashion_mnist(files: Files, *, normalize: str = "standard") -> Dataset:
    """Pieces of clothing, 28 × 28 pixels, 10 kinds.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    return _images("fashion-mnist", files, "FashionMNIST", pixels.FASHION_MNIST, normalize)


def mnist_writers(files: Files, *, normalize: str = "standard") -> Dataset:
    """MNIST with the writer of each image: natural clients. No writer is in both parts.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    plain = mnist(files, normalize=normalize)
    found = read_npz(files["MNIST/writers.npz"], ("train_writer", "test_writer"))
    writers = np.concatenate([found["train_writer"], found["test_writer"]])
    names, owners = np.unique(writers, return_inverse=True)
    train, test = np.split(owners.astype(np.int64), [len(plain.train)])
    return Dataset(
        "mnist-writers", plain.train, plain.test, train, test, tuple(f"writer {name}" for name in names)
    )
