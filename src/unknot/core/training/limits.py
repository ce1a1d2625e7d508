"""Numbers that a setting may have; others are refused by the setting's name."""

from __future__ import annotations

import math
from numbers import Integral, Real

from unknot.core.errors import ConfigError

LARGEST = 3.4e38
"""What a weight in single precision can hold."""


def positive(owner: object, **values: float) -> None:
    for name, value in _finite(owner, values).items():
        if not value > 0:
            raise ConfigError(f"{type(owner).__name__}: {name} must be positive, not {value}")


def not_negative(owner: object, **values: float) -> None:
    for name, value in _finite(owner, values).items():
        if not value >= 0:
            raise ConfigError(f"{type(owner).__name__}: {name} must not be negative, not {value}")


def at_least_one(owner: object, **values: int | None) -> None:
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, Integral):
            raise ConfigError(f"{type(owner).__name__}: {name} must be a whole number, not {value!r}")
        if not value >= 1:
            raise ConfigError(f"{type(owner).__name__}: {name} must be at least 1, not {value}")


def share(owner: object, **values: float) -> None:
    for name, value in _finite(owner, values).items():
        if not 0 <= value <= 1:
            raise ConfigError(f"{type(owner).__name__}: {name} must be in [0, 1], not {value}")


def decays(owner: object, **values: float) -> None:
    for name, value in _finite(owner, values).items():
        if not 0 <= value < 1:
            raise ConfigError(f"{type(owner).__name__}: {name} must be in [0, 1), not {value}")


def betas(owner: object, pair: tuple[float, float]) -> None:
    two = isinstance(pair, tuple | list) and len(pair) == 2
    if not two or not all(isinstance(beta, Real) and 0 <= beta < 1 for beta in pair):
        raise ConfigError(f"{type(owner).__name__}: betas must be two numbers in [0, 1), not {pair}")


def _finite(owner: object, values: dict[str, float]) -> dict[str, float]:
    """The same values, where all are finite numbers."""
    for name, value in values.items():
        if not isinstance(value, Real) or not math.isfinite(value):
            raise ConfigError(f"{type(owner).__name__}: {name} must be a finite number, not {value!r}")
        if abs(value) > LARGEST:
            raise ConfigError(f"{type(owner).__name__}: {name} must be at most {LARGEST:g}, not {value!r}")
    return values
