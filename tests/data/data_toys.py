"""Small files in the real formats, and small data sets in memory, for the tests of unknot.data."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from hypothesis import settings
from numpy.typing import NDArray

from unknot.core.data import FederatedData, Samples
from unknot.data import Dataset

# The same examples every time: a test must not fail for one reader and pass for another.
steady = settings(derandomize=True, deadline=None, max_examples=40)

SHORT = {"train": "train", "test": "t10k"}


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_path(root: Path, folder: str, part: str, what: str) -> Path:
    kind = "images-idx3" if what == "images" else "labels-idx1"
    return root / folder / "raw" / f"{SHORT[part]}-{kind}-ubyte"


def write_idx(
    root: Path, folder: str = "MNIST", zipped: bool = True, train: int = 20, test: int = 10
) -> None:
    """Image i of a part is filled with the value i; its label is i mod 10."""
    for part, count in (("train", train), ("test", test)):
        images = np.repeat(np.arange(count, dtype=np.uint8), 784).reshape(count, 28, 28)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for what, array in (("images", images), ("labels", labels)):
            path = idx_path(root, folder, part, what)
            path.parent.mkdir(parents=True, exist_ok=True)
            if zipped:
                Path(f"{path}.gz").write_bytes(gzip.compress(idx_bytes(array)))
            else:
                path.write_bytes(idx_bytes(array))


def write_cifar10(root: Path, records: int = 4) -> Path:
    """Record i of a batch: label i, red pixels 10, green 20, blue 30."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    pixels = bytes([10] * 1024 + [20] * 1024 + [30] * 1024)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (folder / f"{name}.bin").write_bytes(b"".join(bytes([i]) + pixels for i in range(records)))
    return folder


def write_bits(path: Path, rows: Sequence[Sequence[int]], quoted: bool = True) -> None:
    """Rows of a label and bits, as privacytrustlab writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join([f'"{label}"' if quoted else str(label), *map(str, bits)]) for label, *bits in rows]
    path.write_text("\n".join(lines) + "\n")


def leaf_json(users: dict[str, list[int]], pixel: float = 0.5) -> dict[str, object]:
    """LEAF's content: each user with these labels, every pixel alike."""
    return {
        "users": list(users),
        "num_samples": [len(labels) for labels in users.values()],
        "user_data": {
            user: {"x": [[pixel] * 784 for _ in labels], "y": labels} for user, labels in users.items()
        },
    }


def write_leaf(root: Path, part: str, content: object, name: str = "all_data_0.json") -> Path:
    path = root / "femnist" / "data" / part / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def write_shakespeare(root: Path, text: str) -> Path:
    path = root / "shakespeare" / "tinyshakespeare.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def labelled(
    train: Sequence[int], test: Sequence[int], classes: int | None = None, name: str = "toy"
) -> Dataset:
    """A data set whose input is the row's own number (test rows count on from 1,000,000)."""
    many = classes if classes is not None else max(train) + 1

    def part(labels: Sequence[int], first: int) -> Samples:
        x = torch.arange(first, first + len(labels), dtype=torch.float64).view(-1, 1)
        return Samples(x, torch.tensor(labels, dtype=torch.int64), many)

    return Dataset(name, part(train, 0), part(test, 1_000_000))


def balanced(classes: int = 10, train: int = 100, test: int = 30) -> Dataset:
    """`train` and `test` rows of every class, the classes taking turns."""
    return labelled(list(range(classes)) * train, list(range(classes)) * test)


def owned(train: Sequence[int], test: Sequence[int], classes: int = 2) -> Dataset:
    """A data set with these owners; labels alternate."""
    plain = labelled(
        [i % classes for i in range(len(train))], [i % classes for i in range(len(test))], classes
    )
    names = tuple(f"owner {i}" for i in range(max([*train, *test]) + 1))
    train_owner, test_owner = np.asarray(train, dtype=np.int64), np.asarray(test, dtype=np.int64)
    return Dataset("owned", plain.train, plain.test, train_owner, test_owner, names)


def label_counts(data: FederatedData, client: int) -> list[int]:
    labels = data.train.y[torch.from_numpy(data[client].rows)]
    return torch.bincount(labels, minlength=data.train.classes).tolist()


def counts_in_test(data: FederatedData, client: int) -> list[int]:
    labels = data.test.y[torch.from_numpy(data.test_rows[client])]
    return torch.bincount(labels, minlength=data.test.classes).tolist()


def rows_of(data: FederatedData) -> dict[int, list[int]]:
    return {client: data[client].rows.tolist() for client in data}
