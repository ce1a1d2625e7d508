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


def test_rows_that_straddle_the_pieces_read_at_once_arrive_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(50, 600, 100)
    write_bits(tmp_path / "purchase100" / "dataset_purchase", rows)
    monkeypatch.setattr(reader, "CHUNK", 1000)
    found, labels = reader.read_bits(tmp_path / "purchase100" / "dataset_purchase", 600)
    assert found.tolist() == [row[1:] for row in rows]
    assert labels.tolist() == [row[0] for row in rows]


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
    ("row", "message"),
    [
        ([1] + [0] * 445, r"447 columns \(a label and 446 bits\), found 446 columns in row 4"),
        ([1] + [0] * 447, "447 columns .*found 448 columns in row 4"),
        ([1, 0], "447 columns .*found 2 columns in row 4"),
        ([1] + [0] * 445 + [2], "0 or 1, found '2' in row 4, column 447"),
        ([1, 11] + [0] * 445, "0 or 1, found '11' in row 4, column 2"),
        ([31] + [0] * 446, "labels from 1 to 30, found label 31 in sample 3"),
        ([0] + [0] * 446, "labels from 1 to 30, found label 0 in sample 3"),
        ([10**20] + [0] * 446, "a whole number as label, found '\"1(0){20}\"' in row 4"),
        ([-1] + [0] * 446, "a whole number as label, found '\"-1\"' in row 4"),
    ],
)
def test_wrong_row_is_named_with_what_was_expected(tmp_path: Path, row: list[int], message: str) -> None:
    path = tmp_path / "location30" / "bangkok"
    write_bits(path, [*_rows(3, 446, 30), row])
    with pytest.raises(DataError, match=f"bangkok: expected {message}"):
        load("location30", tmp_path)


def test_file_cut_in_mid_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "location30" / "bangkok"
    write_bits(path, _rows(10, 446, 30))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=r"447 columns .* in row 10"):
        load("location30", tmp_path)


def test_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "location30" / "bangkok"
    path.parent.mkdir()
    path.write_text("\n")
    with pytest.raises(DataError, match="found an empty file"):
        load("location30", tmp_path)
