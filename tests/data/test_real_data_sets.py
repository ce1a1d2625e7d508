"""Known facts about the real data sets, where UNKNOT_DATA has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from unknot.core.places import folders
from unknot.data import Dataset, catalogue, load, verify
from unknot.data.readers.speech import VOCABULARY, speeches

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
Fetch = Callable[[str], Dataset]


@pytest.fixture(scope="module")
def fetch() -> Fetch:
    present = {entry.name for entry in catalogue() if entry.present}
    loaded: dict[str, Dataset] = {}

    def get(name: str) -> Dataset:
        if name not in present:
            pytest.skip(f"{name} is not in UNKNOT_DATA")
        if name not in loaded:
            loaded[name] = load(name)
        return loaded[name]

    return get


def test_mnist_has_its_class_counts_and_standard_pixels(fetch: Fetch) -> None:
    data = fetch("mnist")
    assert torch.bincount(data.train.y).tolist() == MNIST_COUNTS
    assert torch.bincount(data.test.y).tolist() == MNIST_TEST_COUNTS
    assert data.train.x.mean().item() == pytest.approx(0, abs=1e-3)
    assert data.train.x.std().item() == pytest.approx(1, abs=1e-3)


def test_mnist_has_539_and_297_writers_none_in_both_parts(fetch: Fetch) -> None:
    data = fetch("mnist-writers")
    assert data.train_owner is not None
    assert data.test_owner is not None
    train, test = np.unique(data.train_owner), np.unique(data.test_owner)
    assert (len(train), len(test), len(data.owner_names)) == (539, 297, 836)
    assert not len(np.intersect1d(train, test))


def test_fashion_mnist_is_balanced_with_standard_pixels(fetch: Fetch) -> None:
    data = fetch("fashion-mnist")
    assert torch.bincount(data.train.y).tolist() == [6000] * 10
    assert torch.bincount(data.test.y).tolist() == [1000] * 10
    assert data.train.x.mean().item() == pytest.approx(0, abs=1e-3)
    assert data.train.x.std().item() == pytest.approx(1, abs=1e-3)


def test_location30_has_5010_rows_of_446_bits_in_30_classes(fetch: Fetch) -> None:
    data = fetch("location30")
    assert len(data.train) + len(data.test) == 5010
    assert data.shape == (446,)
    together = torch.bincount(data.train.y, minlength=30) + torch.bincount(data.test.y, minlength=30)
    # Counted with cut, sort and uniq on the file: class 5 has fewest, class 8 most.
    assert (int(together.min()), int(together.argmin()) + 1) == (97, 5)
    assert (int(together.max()), int(together.argmax()) + 1) == (308, 8)


def test_tiny_shakespeare_has_its_characters_and_speakers(fetch: Fetch) -> None:
    fetch("shakespeare")
    path = next(root for root in folders() if (root / "shakespeare").exists())
    text = (path / "shakespeare" / "tinyshakespeare.txt").read_text()
    assert len(text) == 1_115_394
    assert "".join(sorted(set(text))) == VOCABULARY
    said = speeches(text)
    assert sum(len(words) >= 2000 for words in said.values()) == 99
    assert max(said, key=lambda name: len(said[name])) == "GLOUCESTER"


def test_cifar10_is_balanced_with_standard_pixels(fetch: Fetch) -> None:
    data = fetch("cifar10")
    assert torch.bincount(data.train.y).tolist() == [5000] * 10
    assert torch.bincount(data.test.y).tolist() == [1000] * 10
    assert data.train.x.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    assert data.train.x.std(dim=(0, 2, 3)).tolist() == pytest.approx([1, 1, 1], abs=1e-3)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "location30", "shakespeare", "cifar10"])
def test_real_files_have_their_checksums(fetch: Fetch, name: str) -> None:
    fetch(name)
    assert {check.status for check in verify(name)} == {"ok"}
