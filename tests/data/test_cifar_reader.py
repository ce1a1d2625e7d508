"""CIFAR-10 and CIFAR-100 in their binary versions, from small files in the real format."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from data_toys import write_cifar10

from unknot.core.errors import ConfigError, DataError
from unknot.data import load


def test_records_are_a_label_then_red_green_blue(tmp_path: Path) -> None:
    write_cifar10(tmp_path, records=4)
    data = load("cifar10", tmp_path, normalize="unit")
    assert data.train.x.shape == (20, 3, 32, 32)
    assert data.train.y.tolist() == [0, 1, 2, 3] * 5
    assert data.test.y.tolist() == [0, 1, 2, 3]
    for channel, value in enumerate((10, 20, 30)):
        assert torch.equal(data.test.x[0, channel], torch.full((32, 32), float(value)).div(255))


def test_each_channel_is_normalised_by_its_own_published_constants(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    x = load("cifar10", tmp_path).train.x
    expected = torch.tensor(
        [(10 / 255 - 0.4914) / 0.2470, (20 / 255 - 0.4822) / 0.2435, (30 / 255 - 0.4465) / 0.2616]
    )
    torch.testing.assert_close(x[0, :, 5, 5], expected)


@pytest.mark.parametrize("name", ["data_batch_3.bin", "test_batch.bin"])
def test_a_truncated_batch_is_named(tmp_path: Path, name: str) -> None:
    path = write_cifar10(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=name):
        load("cifar10", tmp_path)


def test_a_label_out_of_range_is_named(tmp_path: Path) -> None:
    path = write_cifar10(tmp_path) / "data_batch_2.bin"
    raw = bytearray(path.read_bytes())
    raw[3073] = 10
    path.write_bytes(bytes(raw))
    with pytest.raises(DataError, match="cifar10: training sample 5: label 10"):
        load("cifar10", tmp_path)


def test_pickled_version_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(DataError, match=r"binary version.*unpickling can run code"):
        load("cifar10", tmp_path)


def _write_cifar100(root: Path) -> Path:
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for part, count in (("train", 6), ("test", 3)):
        records = [bytes([i % 20, 99 - i]) + bytes([10 * i]) * 3072 for i in range(count)]
        (folder / f"{part}.bin").write_bytes(b"".join(records))
    return folder


def test_cifar100_gives_fine_labels_or_coarse_ones(tmp_path: Path) -> None:
    _write_cifar100(tmp_path)
    fine = load("cifar100", tmp_path, normalize="unit")
    assert fine.classes == 100
    assert fine.train.y.tolist() == [99, 98, 97, 96, 95, 94]
    assert torch.equal(fine.test.x[2], torch.full((3, 32, 32), 20.0).div(255))
    coarse = load("cifar100", tmp_path, labels="coarse")
    assert coarse.classes == 20
    assert coarse.test.y.tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match="Did you mean 'fine'"):
        load("cifar100", tmp_path, labels="fin")


def test_cifar100_truncated_or_out_of_range_is_refused(tmp_path: Path) -> None:
    path = _write_cifar100(tmp_path) / "test.bin"
    good = path.read_bytes()
    for bad in (good[:-3], good[:1] + bytes([100]) + good[2:]):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="test"):
            load("cifar100", tmp_path)
