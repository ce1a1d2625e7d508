"""What differs between two descriptions of a federation is said in a line, whoever wrote them."""

from pathlib import Path

import pytest

from unknot.core.errors import StoreError
from unknot.store.compare import _check_same

NOT = float("nan")


@pytest.mark.parametrize(
    ("then", "here", "said"),
    [
        ({"name": "a", "rate": 1}, {"name": "b", "rate": 2}, "method is 'b', the run in run has 'a'"),
        ({"rate": {"first": 1}}, {"rate": {"first": 2}}, "method.rate.first is 2"),
        ({"rate": None}, {}, "method.rate is nothing"),
        ({}, {"rate": None}, "method.rate is nothing"),
        ({"rate": 1}, None, "method is nothing"),
        ({1: "x", None: "y"}, {"1": "x"}, "method.1 is nothing"),
        ([1], (1,), "method is"),
        ({"rate": NOT}, {"rate": float("nan")}, "method.rate is nan"),
    ],
)
def test_the_first_setting_that_is_another_one_is_named(then, here, said):
    with pytest.raises(StoreError) as refused:
        _check_same([("method", then, here)], Path("run"))
    assert said in str(refused.value)
