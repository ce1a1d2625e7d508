"""KNOT's match ratings: how badly a client fits a cluster, by its training time and its model's disparity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.topology.probabilities import exact

DIGITS = 400  # of a distance, in binary, after the point
SAME = 100  # a rating is a whole number that it is nearer to than 2^-100
SLACK = 1e-9  # rounding may leave a disparity this far outside 0..1


@dataclass(frozen=True)
class Anchors:
    """The time and the disparity that each cluster is meant for, and the scales of both."""

    times: NDArray[np.float64]
    disparities: NDArray[np.float64]
    a: float
    b: float


def anchors(
    times: ArrayLike, disparities: ArrayLike, clusters: int, a: float | None = None, b: float | None = None
) -> Anchors:
    """Times evenly from the least to the greatest, disparities 1/N, 2/N .. 1; one cluster: the least time."""
    t, _ = _checked(times, disparities, clusters)
    steps = np.arange(clusters) / max(clusters - 1, 1)
    least, greatest = float(t.min()), float(t.max())
    wide = (greatest - least) * steps
    return Anchors(
        np.minimum(least + wide, greatest),
        (np.arange(clusters) + 1) / clusters,
        # All times alike: every anchor is that time, so its scale does not matter.
        _scale(a, "a") if a is not None else 1 / (greatest - least) if greatest > least else 0.0,
        1.0 if b is None else _scale(b, "b"),
    )


def ratings(
    times: ArrayLike, disparities: ArrayLike, clusters: int, a: float | None = None, b: float | None = None
) -> NDArray[np.int64]:
    """D[k, n] = ⌈100 (d − d_min) / (d_max − d_min)⌉ with d = ‖(a (T̃_n − T_k), b (S̃_n − S_k))‖, in 0..100.

    By default a = 1 / (T_max − T_min) and b = 1: times and disparities then both run from 0 to 1, as
    their anchors do, whatever a time is measured in. Given a and b are used as they are.

    Rounding could put a value just above a whole number and the rating one too high. So it is computed
    in whole numbers, from the numbers as they are written (0.1 is one tenth).
    """
    t, s = _checked(times, disparities, clusters)
    # Clients that are alike are rated once.
    points, clients = np.unique(t + 1j * s, return_inverse=True)
    written = [exact(time, "a time") for time in points.real.tolist()]
    least, wide = min(written), max(written) - min(written)
    across = 1 / wide if a is None and wide else Fraction(0) if a is None else exact(_scale(a, "a"), "a")
    along = exact(1 if b is None else _scale(b, "b"), "b")
    parts = range(clusters)
    sides = (
        [across * time for time in written],
        [along * exact(disparity, "a disparity") for disparity in points.imag.tolist()],
        [across * (least + wide * Fraction(n, max(clusters - 1, 1))) for n in parts],
        [along * Fraction(n + 1, clusters) for n in parts],
    )
    scale = math.lcm(*(number.denominator for side in sides for number in side))
    x, y, at, up = ([int(number * scale) for number in side] for side in sides)
    squares = [(at[n] - x[k]) ** 2 + (up[n] - y[k]) ** 2 for k in range(len(x)) for n in parts]
    roots = [math.isqrt(square << 2 * DIGITS) for square in squares]
    low, width = min(roots), max(roots) - min(roots)
    slip = width >> SAME
    rated = [-((slip - 100 * (root - low)) // max(width, 1)) for root in roots]
    return np.asarray(rated, dtype=np.int64).reshape(-1, clusters)[clients]


def _scale(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < float("inf"):
        raise ConfigError(f"{name} is {value!r}: it must be a finite number, 0 or more")
    return float(value)


def _checked(
    times: ArrayLike, disparities: ArrayLike, clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if isinstance(clusters, bool) or not isinstance(clusters, int | np.integer) or clusters < 1:
        raise ConfigError(f"the clusters are {clusters!r}: it must be a whole number, 1 or more")
    t, s = _vector(times, "time", np.inf), _vector(disparities, "disparity", 1 + SLACK)
    if len(t) != len(s) or not len(t):
        raise ConfigError(f"{len(t)} times and {len(s)} disparities: give every client one of each")
    return t, s.clip(0.0, 1.0)


def _vector(values: ArrayLike, what: str, most: float) -> NDArray[np.float64]:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}s must be one number for each client: {error}") from None
    if vector.ndim != 1:
        raise ConfigError(f"{what}s must be one number for each client, found the shape {vector.shape}")
    for client in np.flatnonzero(~((vector >= -SLACK) & (vector <= most) & np.isfinite(vector)))[:1].tolist():
        raise ConfigError(
            f"the {what} of client {client} is {vector[client]}: it must be finite, 0 or more, and at most "
            f"{most:.3g}"
        )
    return vector
