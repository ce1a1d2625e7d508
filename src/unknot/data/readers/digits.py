"""The built-in digits: a sample of MNIST with the writer of each image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from unknot.core.data import Samples
from unknot.data import pixels
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import read_npz

ASSETS = Path(__file__).parent.parent / "assets"


def digits(files: Mapping[str, Path], *, normalize: str = "standard") -> Dataset:
    """100 writers; of each, 8 images a digit to train with and 2 others to test with.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    names = [f"{part}_{what}" for part in ("train", "test") for what in ("image", "label", "writer")]
    stored = read_npz(files["digits.npz"], names)
    writers = np.unique(stored["train_writer"])

    def part(name: str) -> tuple[Samples, Ints]:
        images = torch.from_numpy(stored[f"{name}_image"]).unsqueeze(1)
        labels = torch.from_numpy(stored[f"{name}_label"].astype(np.int64))
        owner = np.searchsorted(writers, stored[f"{name}_writer"]).astype(np.int64)
        return Samples(pixels.MNIST.apply(images, normalize), labels, 10), owner

    (train, train_owner), (test, test_owner) = part("train"), part("test")
    names = [f"writer {writer}" for writer in writers]
    return Dataset("digits", train, test, train_owner, test_owner, tuple(names))
