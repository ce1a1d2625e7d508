"""FEMNIST in LEAF's JSON: users, and for each user images and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import DataError
from unknot.data import pixels
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import read_bytes, reading

Files = Mapping[str, Path]
CLASSES = 62
PIXELS = 28 * 28


def _part(folder: Path) -> tuple[NDArray[np.float32], Ints, list[str]]:
    """Pixels, labels and the user of each row, all files of a folder together."""
    xs, ys, users = [], [], []
    for path in sorted(folder.glob("*.json")):
        with reading(path):
            content = json.loads(read_bytes(path))
            for user in content["users"]:
                data = content["user_data"][user]
                ys.append(np.asarray(data["y"], dtype=np.int64))
                xs.append(np.asarray(data["x"], dtype=np.float32).reshape(len(ys[-1]), PIXELS))
                users += [user] * len(ys[-1])
    if not users:
        raise DataError(f"{folder}: expected LEAF's JSON files (*.json) with samples, found none")
    return np.concatenate(xs), np.concatenate(ys), users


def femnist(files: Files, *, normalize: str = "standard") -> Dataset:
    """Digits and letters of 28 × 28 pixels, by writer.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    parts = [_part(files[f"femnist/data/{part}"]) for part in ("train", "test")]
    names = sorted({user for _, _, users in parts for user in users})
    number = {name: i for i, name in enumerate(names)}
    samples, owners = [], []
    for x, y, users in parts:
        images = pixels.FEMNIST.apply(torch.from_numpy(x).view(-1, 1, 28, 28), normalize)
        samples.append(Samples(images, torch.from_numpy(y), CLASSES))
        owners.append(np.asarray([number[user] for user in users], dtype=np.int64))
    return Dataset("femnist", samples[0], samples[1], owners[0], owners[1], tuple(names))
