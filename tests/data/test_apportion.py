"""Whole numbers in given proportions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from data_toys import steady
from hypothesis import given
from hypothesis import strategies as st

from unknot.data.partition.apportion import apportion, apportion_like


def _slow(counts: list[int], total: int) -> list[int]:
    """Largest remainders, one row, in exact fractions."""
    shares = [Fraction(count * total, sum(counts)) for count in counts]
    given = [int(share) for share in shares]
    by_remainder = sorted(range(len(counts)), key=lambda i: (given[i] - shares[i], i))
    for i in by_remainder[: total - sum(given)]:
        given[i] += 1
    return given


def test_largest_remainders_get_what_rounding_down_leaves() -> None:
    # 10 × (.55, .30, .15) = 5.5, 3.0, 1.5: rounded down 5, 3, 1; the one left goes to the first tie.
    assert apportion(np.array([[0.55, 0.3, 0.15]]), 10).tolist() == [[6, 3, 1]]
    # 7 × (1, 2, 3)/6 = 1.17, 2.33, 3.5
    assert apportion_like(np.array([[1, 2, 3]]), 7).tolist() == [[1, 2, 4]]


@steady
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=6),
    st.integers(0, 300),
)
def test_whole_number_split_equals_the_slow_one_in_fractions(rows: list[list[int]], total: int) -> None:
    assert apportion_like(np.array(rows), total).tolist() == [_slow(row, total) for row in rows]


@steady
@given(
    st.lists(st.lists(st.floats(1e-300, 1), min_size=5, max_size=5), min_size=1, max_size=5),
    st.integers(0, 1000),
)
def test_rows_sum_to_their_totals_and_stay_within_one_of_their_shares(
    rows: list[list[float]], total: int
) -> None:
    weights = np.array(rows)
    found = apportion(weights, total)
    assert (found.sum(axis=1) == total).all()
    exact = weights / weights.sum(axis=1, keepdims=True) * total
    assert (np.abs(found - exact) < 1 + 1e-9).all()


def test_each_row_may_have_its_own_total() -> None:
    counts = np.array([[1, 1], [3, 1]])
    assert apportion_like(counts, np.array([4, 8])).tolist() == [[2, 2], [6, 2]]
