"""FEMNIST, from small JSON files as LEAF's preprocessing writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_bad_json_is_named_with_its_place(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "femnist/data/train/all_data_1.json").write_text('{"users": [')
    with pytest.raises(DataError, match=r"all_data_1\.json: expected JSON, found .*line 1"):
        load("femnist", tmp_path)


def test_folder_without_json_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)
    (tmp_path / "femnist/data/test/all_data_0.json").unlink()
    with pytest.raises(DataError, match=r"test: expected LEAF's JSON files \(\*\.json\), found none"):
        load("femnist", tmp_path)


def _lose_pixel(content: Any) -> None:
    content["user_data"]["a"]["x"][1] = [0.5] * 783


def _lose_every_last_pixel(content: Any) -> None:
    content["user_data"]["a"]["x"] = [[0.5] * 783] * 2


def _lose_label(content: Any) -> None:
    content["user_data"]["a"]["y"].pop()


def _lose_labels(content: Any) -> None:
    content["user_data"]["a"]["y"] = None


def _lose_data(content: Any) -> None:
    del content["user_data"]["a"]


def _raise_label(content: Any) -> None:
    content["user_data"]["a"]["y"][1] = 62


def _split_label(content: Any) -> None:
    content["user_data"]["a"]["y"][1] = 0.5


def _brighten(content: Any) -> None:
    content["user_data"]["a"]["x"][0][0] = 255


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_lose_pixel, "'x' and 'y' of user 'a'"),
        (_lose_every_last_pixel, r"784 pixels for each of the 2 labels.*shape \(2, 783\)"),
        (_lose_label, r"784 pixels for each of the 1 labels.*shape \(2, 784\)"),
        (_lose_labels, r"784 pixels for each of the 1 labels.*shape \(2, 784\) and \(\)"),
        (_lose_data, "'x' and 'y' of user 'a', found KeyError"),
        (_raise_label, "labels from 0 to 61, found label 62 in sample 1"),
        (_split_label, "whole numbers as labels of user 'a'"),
        (_brighten, r"pixels of user 'a' in 0\.\.1, found 0\.5\.\.255"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, spoil: Callable[[Any], None], message: str) -> None:
    content = leaf_json({"a": [1, 2]})
    spoil(content)
    write_leaf(tmp_path, "train", content)
    write_leaf(tmp_path, "test", leaf_json({"a": [1]}))
    with pytest.raises(DataError, match=rf"all_data_0\.json: expected {message}"):
        load("femnist", tmp_path)


@pytest.mark.parametrize("content", [{"users": ["a"]}, [1, 2], {}, {"users": 3, "user_data": {}}])
def test_json_that_is_not_leafs_is_refused(tmp_path: Path, content: object) -> None:
    write_leaf(tmp_path, "train", content)
    write_leaf(tmp_path, "test", leaf_json({"a": [1]}))
    with pytest.raises(DataError, match=r"all_data_0\.json: expected (LEAF's|a list of users)"):
        load("femnist", tmp_path)
