"""The script that made the built-in digits makes them still."""

from pathlib import Path

import numpy as np
import pytest

from scripts import make_digits
from unknot.core.places import folders
from unknot.data.files import read_npz
from unknot.data.readers.digits import ASSETS

HERE = [root for root in folders(None) if (Path(root) / "MNIST" / "writers.npz").is_file()]


@pytest.mark.skipif(not HERE, reason="needs MNIST with its writers: set UNKNOT_DATA")
def test_the_built_in_digits_are_what_the_script_makes_of_mnist():
    made = make_digits.build(tuple(HERE))
    shipped = read_npz(ASSETS / "digits.npz", made)
    for name, array in made.items():
        assert array.dtype == shipped[name].dtype
        assert np.array_equal(array, shipped[name])


def test_the_same_arrays_are_the_same_bytes():
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.zeros(2, dtype="<i2")}
    assert make_digits.pack(arrays) == make_digits.pack(
        {name: array.copy() for name, array in arrays.items()}
    )
