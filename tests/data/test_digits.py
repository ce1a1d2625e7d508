"""The built-in digits: what LICENSE-digits.txt says about them is so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from unknot.core.places import folders
from unknot.data import Dataset, load, verify
from unknot.data.files import File
from unknot.data.readers.digits import ASSETS

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_digits.py"


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def test_there_are_8000_and_2000_images_of_28_by_28_in_float32(digits: Dataset) -> None:
    assert digits.train.x.shape == (8000, 1, 28, 28)
    assert digits.test.x.shape == (2000, 1, 28, 28)
    assert digits.train.x.dtype == torch.float32
    assert digits.shape == (1, 28, 28)


def test_every_digit_is_equally_frequent(digits: Dataset) -> None:
    assert torch.bincount(digits.train.y).tolist() == [800] * 10
    assert torch.bincount(digits.test.y).tolist() == [200] * 10


def test_every_writer_wrote_8_training_and_2_test_images_of_every_digit(digits: Dataset) -> None:
    assert digits.train_owner is not None
    assert digits.test_owner is not None
    for owner, labels, each in (
        (digits.train_owner, digits.train.y, 8),
        (digits.test_owner, digits.test.y, 2),
    ):
        table = np.zeros((100, 10), dtype=int)
        np.add.at(table, (owner, labels.numpy()), 1)
        assert (table == each).all()


def test_no_image_is_in_both_parts(digits: Dataset) -> None:
    with np.load(ASSETS / "digits.npz") as stored:
        assert not set(stored["train_row"]) & set(stored["test_row"])
        assert len(set(stored["train_row"])) == 8000


def test_loading_needs_no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNKNOT_DATA", raising=False)
    assert len(load("digits").train) == 8000


def test_loading_takes_less_than_a_second() -> None:
    best = min(_seconds_to_load() for _ in range(3))
    assert best < 1


def _seconds_to_load() -> float:
    start = time.perf_counter()
    load("digits")
    return time.perf_counter() - start


def test_the_assets_take_at_most_3_megabytes_and_state_their_licence() -> None:
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) <= 3_000_000
    assert "CC BY-SA 3.0" in (ASSETS / "LICENSE-digits.txt").read_text(encoding="utf-8")


def test_unit_pixels_lie_in_0_to_1_and_standard_ones_are_their_affine_image(digits: Dataset) -> None:
    unit = load("digits", normalize="unit").train.x
    assert unit.min() == 0
    assert unit.max() == 1
    torch.testing.assert_close(digits.train.x, (unit - 0.1307) / 0.3081)


def test_the_file_is_the_one_that_its_checksum_names() -> None:
    assert [check.status for check in verify("digits")] == ["ok"]


def test_the_script_makes_the_file_byte_for_byte(tmp_path: Path) -> None:
    wanted = [
        File("MNIST/raw/train-images-idx3-ubyte", also="MNIST/raw/train-images-idx3-ubyte.gz"),
        File("MNIST/writers.npz"),
    ]
    if any(file.find(folders()) is None for file in wanted):
        pytest.skip("MNIST and its writers are not in UNKNOT_DATA")
    out = tmp_path / "digits.npz"
    made = subprocess.run(
        [sys.executable, SCRIPT, "--out", out], env=os.environ, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    with np.load(out) as new, np.load(ASSETS / "digits.npz") as old:
        assert new.files == old.files
        assert all((new[name] == old[name]).all() for name in old.files)
    if "ng" in zlib.ZLIB_RUNTIME_VERSION:
        pytest.skip("this zlib (zlib-ng) compresses differently; the arrays are the same")
    assert out.read_bytes() == (ASSETS / "digits.npz").read_bytes()
