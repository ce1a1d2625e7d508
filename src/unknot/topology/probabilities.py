"""Probabilities as whole numbers, so that a tie is a tie as a person sees it: 0.1 + 0.2 = 0.3."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from operator import index

from unknot.core.errors import ConfigError


def exact(value: Real | float, what: str) -> Fraction:
    """The number as it is written: the float 0.1 is one tenth."""
    try:
        if isinstance(value, Rational | Decimal) and not isinstance(value, bool):
            return Fraction(value)
        return Fraction(repr(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{what} is {value!r}: it must be a finite number") from None


def weigh(clients: Iterable[int], probabilities: Mapping[int, Real | float] | None) -> dict[int, int]:
    """Whole numbers in the proportion of the probabilities; 1 each where there are none."""
    ids = tuple(clients)
    if probabilities is None:
        return dict.fromkeys(ids, 1)
    check_names(ids, probabilities, "probability")
    shares = {c: exact(probabilities[c], f"the probability of client {c}") for c in ids}
    for c, share in shares.items():
        if share < 0:
            raise ConfigError(f"the probability of client {c} is {probabilities[c]}: it must not be negative")
    if ids and not any(shares.values()):
        raise ConfigError(
            "all probabilities are zero: somebody must be able to leave. Leave them out for all alike"
        )
    scale = math.lcm(*(share.denominator for share in shares.values()))
    return {c: share.numerator * (scale // share.denominator) for c, share in shares.items()}


def check_names(clients: Sequence[int], values: Mapping[int, object], what: str) -> None:
    """Every client has a value, and nobody else."""
    missing = [c for c in clients if c not in values]
    if missing:
        raise ConfigError(f"client {missing[0]} has no {what}: give one for every client, or for none")
    if len(values) > len(clients):
        known = set(clients)
        stranger = next(c for c in values if c not in known)
        raise ConfigError(f"a {what} is given for client {stranger}, which is not among the clients")


def distinct(members: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({index(c) for c in members}))


def listed(members: Sequence[int], most: int = 8) -> str:
    """``{1, 2, 3}``, cut when long."""
    shown = ", ".join(map(str, members[:most]))
    return f"{{{shown}}}" if len(members) <= most else f"{{{shown}, … {len(members)} in all}}"
