"""FEMNIST in LEAF's JSON: users, and for each user images and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unknot.core.data import Samples
from unknot.core.errors import DataError
from unknot.data import pixels
from unknot.data.dataset import Dataset, Ints
from unknot.data.files import check_labels, read_bytes, wrong

Files = Mapping[str, Path]
CLASSES = 62
PIXELS = 28 * 28


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_bytes(path))
    except ValueError as error:
        raise wrong(path, "JSON", str(error)) from error
    if not isinstance(content, dict) or not {"users", "user_data"} <= content.keys():
        raise wrong(path, "LEAF's 'users' and 'user_data'", _summary(content))
    if not isinstance(content["users"], list) or not isinstance(content["user_data"], dict):
        raise wrong(path, "a list of users and a table of their data", "something else")
    return content


def _summary(content: object) -> str:
    if isinstance(content, dict):
        return f"the keys {', '.join(map(repr, list(content)[:5]))}" if content else "no keys"
    return f"a {type(content).__name__}"


def _user(path: Path, user: str, data: Mapping[str, Any]) -> tuple[NDArray[np.float32], Ints]:
    try:
        x = np.asarray(data[user]["x"], dtype=np.float32)
        y = np.asarray(data[user]["y"])
    except (KeyError, TypeError, ValueError) as error:
        raise wrong(path, f"'x' and 'y' of user {user!r}", f"{type(error).__name__}: {error}") from error
    if y.ndim != 1 or (x.size + y.size and x.shape != (len(y), PIXELS)):
        raise wrong(
            path,
            f"{PIXELS} pixels for each of the {y.size} labels of user {user!r}",
            f"arrays of shape {x.shape} and {y.shape}",
        )
    if y.size and y.dtype.kind not in "iu":
        raise wrong(path, f"whole numbers as labels of user {user!r}", str(y.dtype))
    check_labels(path, y, CLASSES)
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise wrong(path, f"pixels of user {user!r} in 0..1", f"{x.min():g}..{x.max():g}")
    return x.reshape(-1, PIXELS), y.astype(np.int64)


def _part(folder: Path) -> tuple[NDArray[np.float32], Ints, list[str]]:
    """Pixels, labels and the user of each row, all files of a folder together."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder}: expected LEAF's JSON files (*.json), found none")
    xs, ys, users = [], [], []
    for path in files:
        content = _parse(path)
        for user in content["users"]:
            x, y = _user(path, user, content["user_data"])
            xs.append(x)
            ys.append(y)
            users += [user] * len(y)
    if not users:
        raise wrong(files[0], "at least one user with samples", "none")
    return np.concatenate(xs), np.concatenate(ys), users


def femnist(files: Files, *, normalize: str = "standard") -> Dataset:
    """Digits and letters of 28 × 28 pixels, by writer.

    `normalize`: pixels less their mean, over their deviation ("standard"), or left in 0 to 1 ("unit").
    """
    pixels.check_normalize(normalize)
    parts = [_part(files[f"femnist/data/{part}"]) for part in ("train", "test")]
    names = sorted({user for _, _, users in parts for user in users})
    number = {name: i for i, name in enumerate(names)}
    samples, owners = [], []
    for x, y, users in parts:
        images = pixels.FEMNIST.apply(torch.from_numpy(x).view(-1, 1, 28, 28), normalize)
        samples.append(Samples(images, torch.from_numpy(y), CLASSES))
        owners.append(np.asarray([number[user] for user in users], dtype=np.int64))
    return Dataset("femnist", samples[0], samples[1], owners[0], owners[1], tuple(names))
