"""Impossible settings, said when a partition is made."""

from __future__ import annotations

from numbers import Integral

from unknot.core.errors import ConfigError


def whole(owner: object, minimum: int = 1, **values: object) -> None:
    """Each a whole number of at least `minimum`, where it is given."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
            raise ConfigError(
                f"{type(owner).__name__}: {name} must be a whole number of at least {minimum}, not {value!r}"
            )


def check_overlap(owner: object, overlap: object, samples: object) -> None:
    if overlap and samples is None:
        raise ConfigError(
            f"{type(owner).__name__}: overlap needs samples: how many each client draws for itself"
        )
