"""Purchase-100 and Location-30, from small csv files in privacytrustlab's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from data_toys import write_bits

from unknot.core.errors import ConfigError, DataError
from unknot.data import load
from unknot.data.readers import bits as reader


def _rows(count: int, features: int, classes: int) -> list[list[int]]:
    draws = np.random.default_rng(0).integers(0, 2, (count, features)).tolist()
    return [[i % classes + 1, *row] for i, row in enumerate(draws)]


@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "no newline at the end"])
def test_every_row_arrives_whatever_the_quotes_and_line_ends(
    tmp_path: Path, quoted: bool, ending: str
) -> None:
    rows = _rows(60, 446, 30)
    path = tmp_path / "location30" / "bangkok"
    write_bits(path, rows, quoted)
    text = path.read_text()
    path.write_bytes((text.rstrip("\n") if "no" in ending else text.replace("\n", ending)).encode())
    found, labels = reader.read_bits(path, 446)
    assert labels.tolist() == [row[0] for row in rows]
    assert found.tolist() == [row[1:] for row in rows]


def test_a_fifth_of_every_class_is_the_test_part(tmp_path: Path) -> None:
    write_bits(tmp_path / "location30" / "bangkok", _rows(300, 446, 30))
    data = load("location30", tmp_path)
    assert data.shape == (446,)
    assert data.train.x.dtype == torch.float32
    # 10 rows of every class: 8 to train, 2 to test.
    assert torch.bincount(data.train.y, minlength=30).tolist() == [8] * 30
    assert torch.bincount(data.test.y, minlength=30).tolist() == [2] * 30


def test_split_is_the_same_for_a_seed_and_another_for_another(tmp_path: Path) -> None:
    write_bits(tmp_path / "purchase100" / "dataset_purchase", _rows(500, 600, 100))
    first, again = (load("purchase100", tmp_path, seed=3) for _ in range(2))
    other = load("purchase100", tmp_path, seed=4)
    assert torch.equal(first.test.x, again.test.x)
    assert not torch.equal(first.test.x, other.test.x)


def test_no_row_is_lost_or_doubled_by_the_split(tmp_path: Path) -> None:
    rows = _rows(200, 600, 100)
    write_bits(tmp_path / "purchase100" / "dataset_purchase", rows)
    data = load("purchase100", tmp_path, test_share=0.5)
    together = torch.cat([data.train.x, data.test.x]).int().tolist()
    assert sorted(together) == sorted(row[1:] for row in rows)


@pytest.mark.parametrize("share", [0, 1, -0.1])
def test_impossible_test_share_is_refused(tmp_path: Path, share: float) -> None:
    write_bits(tmp_path / "location30" / "bangkok", _rows(30, 446, 30))
    with pytest.raises(ConfigError, match="test_share must lie between 0 and 1"):
        load("location30", tmp_path, test_share=share)


@pytest.mark.parametrize(
    "row",
    [
        [1] + [0] * 445,
        [1] + [0] * 447,
        [1, 0],
        [1] + [0] * 445 + [2],
        [1, 11] + [0] * 445,
        [31] + [0] * 446,
        [0] + [0] * 446,
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, row: list[int]) -> None:
    path = tmp_path / "location30" / "bangkok"
    write_bits(path, [*_rows(3, 446, 30), row])
    with pytest.raises(DataError, match=r"bangkok|location30"):
        load("location30", tmp_path)


def test_a_file_that_is_cut_or_empty_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "location30" / "bangkok"
    write_bits(path, _rows(10, 446, 30))
    for raw in (path.read_bytes()[:-300], b"\n"):
        path.write_bytes(raw)
        with pytest.raises(DataError, match="bangkok"):
            load("location30", tmp_path)
