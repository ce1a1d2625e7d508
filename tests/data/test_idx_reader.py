"""MNIST, Fashion-MNIST and MNIST by writer, from small idx files in the real format."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_toys import idx_bytes, idx_path, write_idx
from numpy.typing import NDArray

from unknot.core.errors import ConfigError, DataError
from unknot.data import load


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files_are_read_gzipped_or_not(tmp_path: Path, zipped: bool) -> None:
    write_idx(tmp_path, zipped=zipped)
    data = load("mnist", tmp_path, normalize="unit")
    assert data.train.x.shape == (20, 1, 28, 28)
    assert data.test.x.shape == (10, 1, 28, 28)
    assert data.train.y.tolist() == list(range(10)) * 2
    # Image 7 is filled with the byte 7.
    assert torch.equal(data.train.x[7], torch.full((1, 28, 28), 7.0).div(255))
    assert data.train_owner is None


@pytest.mark.parametrize(
    ("name", "folder", "mean", "std"),
    [("mnist", "MNIST", 0.1307, 0.3081), ("fashion-mnist", "FashionMNIST", 0.2860, 0.3530)],
)
def test_pixels_are_normalised_by_the_published_constants_by_default(
    tmp_path: Path, name: str, folder: str, mean: float, std: float
) -> None:
    write_idx(tmp_path, folder)
    x = load(name, tmp_path).train.x
    assert x.dtype == torch.float32
    torch.testing.assert_close(x[7], torch.full((1, 28, 28), (7 / 255 - mean) / std))


def test_unknown_normalisation_names_the_known_ones(tmp_path: Path) -> None:
    write_idx(tmp_path)
    with pytest.raises(ConfigError, match="'standart'"):
        load("mnist", tmp_path, normalize="standart")


def _images(count: int) -> bytes:
    return idx_bytes(np.zeros((count, 28, 28), dtype=np.uint8))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "raw",
    [b"", b"\x00\x00\x08\x01" + bytes(100), _images(20)[:10], _images(20)[:-1], _images(20) + b"\x00"],
)
def test_a_damaged_file_is_named(tmp_path: Path, raw: bytes, zipped: bool) -> None:
    write_idx(tmp_path, zipped=zipped)
    path = idx_path(tmp_path, "MNIST", "train", "images")
    path = Path(f"{path}.gz") if zipped else path
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    with pytest.raises(DataError, match=path.name):
        load("mnist", tmp_path)
    if zipped:
        for broken in (path.read_bytes()[:-10], b"no gzip at all"):
            path.write_bytes(broken)
            with pytest.raises(DataError, match=path.name):
                load("mnist", tmp_path)


@pytest.mark.parametrize("labels", [np.zeros(19, np.uint8), np.full(20, 10, np.uint8)])
def test_labels_that_are_none_are_refused(tmp_path: Path, labels: NDArray[np.uint8]) -> None:
    write_idx(tmp_path, zipped=False)
    idx_path(tmp_path, "MNIST", "train", "labels").write_bytes(idx_bytes(labels))
    with pytest.raises(DataError):
        load("mnist", tmp_path)


def test_writers_own_the_rows(tmp_path: Path) -> None:
    write_idx(tmp_path, train=20, test=10)
    train = np.repeat([2300, 7], 10).astype(np.int16)
    np.savez(tmp_path / "MNIST" / "writers.npz", train_writer=train, test_writer=np.full(10, 500))
    data = load("mnist-writers", tmp_path)
    assert data.train_owner is not None
    assert data.test_owner is not None
    # Writers are numbered in the order of their QMNIST numbers: 7, 500, 2300.
    assert data.owner_names == ("writer 7", "writer 500", "writer 2300")
    assert data.train_owner.tolist() == [2] * 10 + [0] * 10
    assert data.test_owner.tolist() == [1] * 10
    assert data.owner_of(0) == "writer 2300"


@pytest.mark.parametrize(
    "arrays",
    [
        {"train_writer": np.zeros(20, int)},
        {"train_writer": np.zeros(20, int), "test_writer": np.zeros(9, int)},
    ],
)
def test_wrong_writers_are_refused(tmp_path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    write_idx(tmp_path)
    np.savez(tmp_path / "MNIST" / "writers.npz", allow_pickle=False, **arrays)
    with pytest.raises(DataError, match="writers"):
        load("mnist-writers", tmp_path)


def test_writers_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    write_idx(tmp_path)
    path = tmp_path / "MNIST" / "writers.npz"
    path.write_bytes(b"PK\x03\x04 but truncated")
    with pytest.raises(DataError, match=r"writers\.npz"):
        load("mnist-writers", tmp_path)


def test_pickled_writers_are_never_unpickled(tmp_path: Path) -> None:
    write_idx(tmp_path)
    objects = np.array([{}] * 20, dtype=object)
    np.savez(tmp_path / "MNIST" / "writers.npz", train_writer=objects, test_writer=objects[:10])
    with pytest.raises(DataError, match="allow_pickle=False"):
        load("mnist-writers", tmp_path)
