"""Simulated time: how long a client takes is a pure function of who it is and what it does.

Times are whole nanoseconds. Adding an offset to integers is exact, so a federation that starts
again at 140 s goes through the same order of arrivals as one that starts at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unknot.core.errors import ConfigError
from unknot.core.fields import EACH
from unknot.core.keys import Key
from unknot.core.registry import clocks

SECOND = 1_000_000_000


class Slowness(Protocol):
    """A factor on each client's training time, drawn once per client."""

    def of(self, clients: ArrayLike, key: Key) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Constant:
    """Every client is equally fast."""

    factor: float = 1.0
    """Everybody's slowness, above 0: 2 takes twice as long as 1."""

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ConfigError(f"factor of a constant slowness must be positive, not {self.factor}")

    def of(self, clients: ArrayLike, key: Key) -> NDArray[np.float64]:
        return np.full(np.shape(clients), self.factor)


@dataclass(frozen=True)
class Uniform:
    """Slowness drawn uniformly between two numbers."""

    low: float = 1.0
    """The least slowness, above 0."""
    high: float = 3.0
    """The greatest slowness."""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ConfigError(
                f"low and high of a uniform slowness: 0 < low <= high, not {self.low} and {self.high}"
            )

    def of(self, clients: ArrayLike, key: Key) -> NDArray[np.float64]:
        return self.low + (self.high - self.low) * key.uniform(clients)


@dataclass(frozen=True)
class Pareto:
    """Heavy-tailed slowness, at least 1: P(slowness > s) = s^-alpha, cut off at a cap."""

    alpha: float = 1.0
    """The tail's exponent, above 0: the smaller, the more and the slower stragglers."""
    cap: float = 20.0
    """Nobody is slower than this; at least 1."""

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and self.cap >= 1):
            raise ConfigError(
                f"alpha and cap of a Pareto slowness: alpha > 0, cap >= 1, not {self.alpha} and {self.cap}"
            )

    def of(self, clients: ArrayLike, key: Key) -> NDArray[np.float64]:
        return np.minimum((1.0 - key.uniform(clients)) ** (-1.0 / self.alpha), self.cap)


@dataclass(frozen=True)
class Trace:
    """Measured slowness, a number a client."""

    factors: Annotated[tuple[float, ...], EACH]
    """Slownesses, each above 0: client k has the (k mod length)-th."""

    def __post_init__(self) -> None:
        if not self.factors or not all(factor > 0 for factor in self.factors):
            raise ConfigError("factors of a trace of slowness are a list of positive numbers")

    def of(self, clients: ArrayLike, key: Key) -> NDArray[np.float64]:
        return np.asarray(self.factors)[np.asarray(clients, dtype=np.int64) % len(self.factors)]


@dataclass(frozen=True)
class Clock:
    """Training time = latency + seconds_per_sample × samples read × the client's slowness.

    The slowness may be given by name, or as "package.module:Thing".
    """

    slowness: Slowness = field(default_factory=Constant)
    """How clients differ in speed."""
    seconds_per_sample: float = 0.005
    """Simulated seconds to train on one sample at slowness 1."""
    latency: float = 0.0
    """Simulated seconds that a client's way there and back takes, whatever it trains."""
    _drawn: dict[tuple[int, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slowness", clocks.given(self.slowness, "slowness"))
        if not self.seconds_per_sample > 0:
            raise ConfigError(f"seconds_per_sample must be positive, not {self.seconds_per_sample}")
        if not self.latency >= 0:
            raise ConfigError(f"latency must not be negative, not {self.latency}")

    def duration(self, client: int, samples_read: int, key: Key) -> int:
        """Nanoseconds from sending the model to having the update.

        A client that reads nothing takes as long as for one sample: time always passes.
        """
        factor = self._drawn.get((key.bits, client))
        if factor is None:
            factor = self._drawn[key.bits, client] = float(self.slowness.of([client], key)[0])
        seconds = self.latency + self.seconds_per_sample * max(1, samples_read) * factor
        return max(1, round(seconds * SECOND))
