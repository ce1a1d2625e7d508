"""A data set whose parts do not fit together is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from data_toys import labelled, owned

from unknot.core.data import Samples
from unknot.core.errors import DataError
from unknot.data import Dataset

WHOLE = labelled([0, 1, 0], [1, 0])
OWNERS = np.array([0, 1, 0]), np.array([1, 1])


def test_no_training_samples_is_refused() -> None:
    empty = Samples(torch.empty(0, 1), torch.empty(0, dtype=torch.int64), 2)
    with pytest.raises(DataError, match="no training samples"):
        Dataset("toy", empty, WHOLE.test)


def test_parts_of_different_shape_or_classes_are_refused() -> None:
    wide = Samples(torch.zeros(2, 5), torch.zeros(2, dtype=torch.int64), 2)
    more = Samples(WHOLE.test.x, WHOLE.test.y, 3)
    for other in (wide, more):
        with pytest.raises(DataError, match="differ in shape or classes"):
            Dataset("toy", WHOLE.train, other)


def test_owners_must_fit_the_rows_and_have_names() -> None:
    train, test = OWNERS
    with pytest.raises(DataError, match="owners are given for one part only"):
        Dataset("toy", WHOLE.train, WHOLE.test, train)
    with pytest.raises(DataError, match="3 training samples but 2 owners"):
        Dataset("toy", WHOLE.train, WHOLE.test, train[:2], test, ("a", "b"))
    with pytest.raises(DataError, match="a test sample's owner has no name"):
        Dataset("toy", WHOLE.train, WHOLE.test, np.zeros(3, np.int64), test, ("a",))


def test_owner_of_a_row_is_named_where_there_is_one() -> None:
    assert owned([2, 0], [1]).owner_of(0) == "owner 2"
    with pytest.raises(DataError, match="does not say whose"):
        WHOLE.owner_of(0)
