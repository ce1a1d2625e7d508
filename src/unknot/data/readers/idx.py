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
from unknot.data.files import check_labels, read_bytes, read_npz, wrong
from unknot.data.pixels import Scale

Files = Mapping[str, Path]
PARTS = {"train": "train", "test": "t10k"}


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes with so many dimensions."""
    raw = read_bytes(path)
    magic = bytes((0, 0, 8, dimensions))
    header = 4 + 4 * dimensions
    if raw[:4] != magic:
        raise wrong(path, f"an idx file that begins with {magic.hex()}", raw[:4].hex() or "an empty file")
    if len(raw) < header:
        raise wrong(path, f"a header of {header} bytes", f"{len(raw)} bytes")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", count=dimensions, offset=4))
    size = int(np.prod(shape, dtype=object))
    if len(raw) - header != size:
        dims = " × ".join(map(str, shape))
        raise wrong(path, f"{size} bytes of data ({dims}, as its header says)", f"{len(raw) - header}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _part(files: Files, folder: str, part: str, scale: Scale, normalize: str) -> Samples:
    image_file = files[f"{folder}/raw/{PARTS[part]}-images-idx3-ubyte"]
    label_file = files[f"{folder}/raw/{PARTS[part]}-labels-idx1-ubyte"]
    images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
    if images.shape[1:] != (28, 28):
        raise wrong(image_file, "images of 28 × 28", "{} × {}".format(*images.shape[1:]))
    if len(images) != len(labels):
        raise wrong(label_file, f"{len(images)} labels, one for each image", f"{len(labels)}")
    check_labels(label_file, labels, 10)
    x = scale.apply(torch.from_numpy(images[:, None].copy()), normalize)
    return Samples(x, torch.from_numpy(labels.astype(np.int64)), 10)


def _images(name: str, files: Files, folder: str, scale: Scale, normalize: str) -> Dataset:
    pixels.check_normalize(normalize)
    train, test = (_part(files, folder, part, scale, normalize) for part in PARTS)
    return Dataset(name, train, test)


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
    path = files["MNIST/writers.npz"]
    found = read_npz(path, ("train_writer", "test_writer"))
    for part, samples in (("train", plain.train), ("test", plain.test)):
        writers = found[f"{part}_writer"]
        if writers.shape != (len(samples),) or writers.dtype.kind not in "iu":
            raise wrong(
                path,
                f"{len(samples)} whole numbers as {part}_writer",
                f"an array of {writers.dtype} of shape {writers.shape}",
            )
    names, owners = np.unique(
        np.concatenate([found["train_writer"], found["test_writer"]]), return_inverse=True
    )
    owners = owners.astype(np.int64)
    return Dataset(
        "mnist-writers",
        plain.train,
        plain.test,
        owners[: len(plain.train)],
        owners[len(plain.train) :],
        tuple(f"writer {name}" for name in names),
    )
