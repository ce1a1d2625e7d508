"""Numbers that a setting may have; others are refused by the setting's name."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real

from unknot.core.errors import ConfigError

LARGEST = 3.4e38
"""What a weight in single precision can hold: beyond it, a number counts as infinite."""


def positive(owner: object, **values: float) -> None:
    _check(owner, values, lambda value: value > 0, "be positive")


def not_negative(owner: object, **values: float) -> None:
    _check(owner, values, lambda value: value >= 0, "not be negative")


def share(owner: object, **values: float) -> None:
    _check(owner, values, lambda value: 0 <= value <= 1, "be in [0, 1]")


def decays(owner: object, **values: float) -> None:
    _check(owner, values, lambda value: 0 <= value < 1, "be in [0, 1)")


def betas(owner: object, pair: tuple[float, float]) -> None:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ConfigError(f"{type(owner).__name__}: betas must be two numbers in [0, 1), not {pair}")
    decays(owner, **{f"betas[{place}]": beta for place, beta in enumerate(pair)})


def at_least_one(owner: object, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, Integral):
            raise ConfigError(f"{type(owner).__name__}: {name} must be a whole number, not {value!r}")
        if value is not None and value < 1:
            raise ConfigError(f"{type(owner).__name__}: {name} must be at least 1, not {value}")


def _check(owner: object, values: dict[str, float], fits: Callable[[float], bool], must: str) -> None:
    for name, value in values.items():
        if not isinstance(value, Real) or not abs(value) <= LARGEST:
            raise ConfigError(f"{type(owner).__name__}: {name} must be a finite number, not {value!r}")
        if not fits(value):
            raise ConfigError(f"{type(owner).__name__}: {name} must {must}, not {value}")
