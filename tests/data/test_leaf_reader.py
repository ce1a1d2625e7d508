"""FEMNIST, from small JSON files as LEAF's preprocessing writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from data_toys import leaf_json, write_leaf

from unknot.core.errors import DataError
from unknot.data import ByOwner, federate, load


def _write(root: Path) -> None:
    write_leaf(root, "train", leaf_json({"f01_02": [0, 61], "f00_01": [5]}), "all_data_0.json")
    write_leaf(root, "train", leaf_json({"f09_09": [7, 7, 7]}, pixel=1.0), "all_data_1.json")
    write_leaf(root, "test", leaf_json({"f01_02": [3], "f00_01": [4], "f09_09": [8]}))


def test_all_files_of_a_part_come_together_with_their_writers(tmp_path: Path) -> None:
    _write(tmp_path)
    data = load("femnist", tmp_path, normalize="unit")
    assert data.classes == 62
    assert data.train.x.shape == (6, 1, 28, 28)
    assert data.train.y.tolist() == [0, 61, 5, 7, 7, 7]
    assert data.train.x[:, 0, 0, 0].tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 1.0]
    assert data.owner_names == ("f00_01", "f01_02", "f09_09")
    assert data.train_owner is not None
    assert data.test_owner is not None
    assert data.train_owner.tolist() == [1, 1, 0, 2, 2, 2]
    assert data.test_owner.tolist() == [1, 0, 2]


def test_pixels_are_normalised_by_fixed_constants(tmp_path: Path) -> None:
    _write(tmp_path)
    x = load("femnist", tmp_path).train.x
    torch.testing.assert_close(x[0], torch.full((1, 28, 28), (0.5 - 0.9637) / 0.1592))


def test_writers_become_clients_with_their_own_test_rows(tmp_path: Path) -> None:
    _write(tmp_path)
    data = federate(load("femnist", tmp_path), ByOwner(), validation=0)
    # The most rows first: f09_09 (3), f01_02 (2), f00_01 (1).
    assert [data[client].rows.tolist() for client in data] == [[3, 4, 5], [0, 1], [2]]
    assert [rows.tolist() for rows in data.test_rows.values()] == [[2], [0], [1]]


def test_a_part_without_samples_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "femnist/data/test/all_data_0.json").unlink()
    with pytest.raises(DataError, match="test: expected LEAF's"):
        load("femnist", tmp_path)


USER = {"x": [[0.5] * 784] * 2, "y": [1, 2]}


@pytest.mark.parametrize(
    "content",
    [
        '{"users": [',
        "{}",
        "[1, 2]",
        '{"users": 3, "user_data": {}}',
        '{"users": ["a"]}',
        json.dumps({"users": ["a"], "user_data": {"b": USER}}),
        json.dumps({"users": ["a"], "user_data": {"a": {**USER, "y": [1]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {**USER, "y": None}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {**USER, "x": [[0.5] * 783] * 2}}}),
    ],
)
def test_a_file_that_is_not_leafs_is_named(tmp_path: Path, content: str) -> None:
    _write(tmp_path)
    (tmp_path / "femnist/data/train/all_data_1.json").write_text(content)
    with pytest.raises(DataError, match=r"all_data_1\.json"):
        load("femnist", tmp_path)


def test_a_label_beyond_the_classes_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    write_leaf(tmp_path, "train", leaf_json({"a": [1, 62]}), "all_data_1.json")
    with pytest.raises(DataError, match="label 62"):
        load("femnist", tmp_path)
