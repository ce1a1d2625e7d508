"""KNOT's match ratings: how badly a client fits a cluster, by its training time and its model's disparity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.topology.probabilities import exact

DIGITS = 60  # of the numbers that decide what double precision cannot
SAME = Decimal(10) ** -30
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

    Rounding could put a value just above a whole number and the rating one too high. So what double
    precision cannot tell from a whole number is computed again, with 60 digits, from the numbers as they
    are written (0.1 is one tenth).
    """
    t, s = _checked(times, disparities, clusters)
    set_ = anchors(t, s, clusters, a, b)
    # Clients that are alike are rated once: with few different ones, all of them may need 60 digits.
    points, clients = np.unique(t + 1j * s, return_inverse=True)
    t, s = points.real, points.imag
    with np.errstate(over="ignore", invalid="ignore"):
        d = np.hypot(
            set_.a * (set_.times[None, :] - t[:, None]), set_.b * (set_.disparities[None, :] - s[:, None])
        )
        reach = set_.a * float(t.max()) + set_.b
        spread = float(d.max()) - float(d.min())
    if not (np.isfinite(d).all() and np.isfinite(reach)):
        raise ConfigError(f"a = {set_.a:g} and b = {set_.b:g} make distances too large: give smaller ones")
    slip = 32 * float(np.finfo(np.float64).eps) * (reach + float(d.max()))  # how wrong a distance may be
    plain = _Exact(t, s, clusters, a, b)
    low = min(plain.squares(*np.nonzero(d <= d.min() + 2 * slip)).values())
    high = max(plain.squares(*np.nonzero(d >= d.max() - 2 * slip)).values())
    if low == high:
        return np.zeros((len(clients), clusters), dtype=np.int64)
    # `spread` may be 0 where the distances differ by less than doubles can say: then all are in doubt.
    doubt = max(400 * slip / spread, 1e-9) if spread > 0 else 1.0
    value = 100 * ((d - d.min()) / spread) if spread > 0 else np.zeros(d.shape)
    rated = np.ceil(value).clip(0, 100).astype(np.int64)
    doubtful = plain.squares(*np.nonzero(np.abs(value - np.rint(value)) <= doubt))
    with localcontext() as context:
        context.prec = DIGITS
        root_low = _root(low)
        width = _root(high) - root_low
        for (k, n), square in doubtful.items():
            share = 100 * (_root(square) - root_low) / width
            whole = share.to_integral_value()
            if abs(share - whole) > SAME:
                whole = share.to_integral_value(rounding="ROUND_CEILING")
            rated[k, n] = min(max(int(whole), 0), 100)
    return rated[clients]


class _Exact:
    """Squared distances as fractions."""

    def __init__(
        self,
        times: NDArray[np.float64],
        disparities: NDArray[np.float64],
        clusters: int,
        a: float | None,
        b: float | None,
    ) -> None:
        self.times, self.disparities, self.clusters = times.tolist(), disparities.tolist(), clusters
        self.least, self.greatest = exact(min(self.times), "a time"), exact(max(self.times), "a time")
        wide = self.greatest - self.least
        self.a = exact(a, "a") if a is not None else 1 / wide if wide else Fraction(0)
        self.b = Fraction(1) if b is None else exact(b, "b")

    def squares(
        self, clients: NDArray[np.intp], clusters: NDArray[np.intp]
    ) -> dict[tuple[int, int], Fraction]:
        pairs = list(zip(clients.tolist(), clusters.tolist(), strict=True))
        return {(k, n): self._square(self.times[k], self.disparities[k], n) for k, n in pairs}

    def _square(self, time: float, disparity: float, n: int) -> Fraction:
        anchor = self.least + (self.greatest - self.least) * Fraction(n, max(self.clusters - 1, 1))
        across = self.a * (anchor - exact(time, "a time"))
        along = self.b * (Fraction(n + 1, self.clusters) - exact(disparity, "a disparity"))
        return across**2 + along**2


def _root(square: Fraction) -> Decimal:
    return (Decimal(square.numerator) / Decimal(square.denominator)).sqrt()


def _scale(value: float, name: str) -> float:
    if not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = -1.0
        if 0 <= number < float("inf"):
            return number
    raise ConfigError(f"{name} is {value!r}: it must be a finite number, 0 or more")


def _checked(
    times: ArrayLike, disparities: ArrayLike, clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if isinstance(clusters, bool) or not isinstance(clusters, int | np.integer) or clusters < 1:
        raise ConfigError(f"the clusters are {clusters!r}: it must be a whole number, 1 or more")
    t, s = _vector(times, "times"), _vector(disparities, "disparities")
    if len(t) != len(s):
        raise ConfigError(f"{len(t)} times and {len(s)} disparities: give every client one of each")
    if not len(t):
        raise ConfigError("there are no clients to rate")
    _refuse(t, ~np.isfinite(t), "time", "it must be a finite number")
    _refuse(t, t < 0, "time", "it must not be negative")
    _refuse(s, ~np.isfinite(s), "disparity", "it must be a finite number")
    _refuse(s, (s < -SLACK) | (s > 1 + SLACK), "disparity", "it must lie in 0..1")
    return t, s.clip(0.0, 1.0)


def _vector(values: ArrayLike | Sequence[float], what: str) -> NDArray[np.float64]:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"the {what} are not numbers") from None
    if vector.ndim != 1:
        raise ConfigError(f"the {what} have the shape {vector.shape}: give one number for each client")
    return vector


def _refuse(values: NDArray[np.float64], bad: NDArray[np.bool_], what: str, why: str) -> None:
    if bad.any():
        client = int(np.flatnonzero(bad)[0])
        raise ConfigError(f"the {what} of client {client} is {values[client]}: {why}")
