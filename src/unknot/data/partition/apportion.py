"""Whole numbers in given proportions: the largest remainders get what rounding down leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def apportion(weights: NDArray[np.float64], totals: int | Ints) -> Ints:
    """Split each row's total in proportion to the row's weights; rows sum to their totals exactly.

    Ties go to the first column.
    """
    exact = weights / weights.sum(axis=1, keepdims=True) * np.asarray(totals, np.float64).reshape(-1, 1)
    floor = np.floor(exact)
    return _hand_out(floor.astype(np.int64), exact - floor, totals)


def apportion_like(counts: Ints, totals: int | Ints) -> Ints:
    """Split each row's total in proportion to the row's counts, in whole-number arithmetic.

    No part exceeds its exact share rounded up.
    """
    scaled = counts * np.asarray(totals, np.int64).reshape(-1, 1)
    sums = counts.sum(axis=1, keepdims=True)
    return _hand_out(scaled // sums, (scaled % sums).astype(np.float64), totals)


def _hand_out(floor: Ints, remainder: NDArray[np.float64], totals: int | Ints) -> Ints:
    left = np.broadcast_to(np.asarray(totals, np.int64), (len(floor),)) - floor.sum(axis=1)
    order = np.argsort(-remainder, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(floor.shape[1]), floor.shape), axis=1)
    shares: Ints = floor + (rank < left[:, None])
    return shares
