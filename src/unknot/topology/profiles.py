"""A table of clients, `client,time,disparity`, as a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from unknot.core.errors import ConfigError
from unknot.topology.columns import from_file, number, parse_columns

COLUMNS = ("client", "time", "disparity")


@dataclass(frozen=True)
class Profiles:
    """How long each client trains, and how far its update is from the others', in the table's order."""

    names: tuple[int | str, ...]
    times: tuple[float, ...]
    disparities: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.names)


def read_profiles(path: str | Path) -> Profiles:
    """The table in a CSV file with a header, columns in any order."""
    return from_file(path, parse_profiles)


def parse_profiles(lines: Iterable[str], where: str = "the table") -> Profiles:
    table = parse_columns(lines, where, COLUMNS, COLUMNS)
    times, disparities = table.read("time", _time), table.read("disparity", _disparity)
    return Profiles(tuple(table.names.values()), tuple(times), tuple(disparities))


def _time(text: str, place: str) -> float:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the time is {text!r}: it must be a finite number")
    if value < 0:
        raise ConfigError(f"{place}: the time is {text}: it must not be negative")
    return value


def _disparity(text: str, place: str) -> float:
    value = number(text)
    if value is None or not math.isfinite(value):
        raise ConfigError(f"{place}: the disparity is {text!r}: it must be a number in 0..1")
    if not 0 <= value <= 1:
        raise ConfigError(f"{place}: the disparity is {text}: it must lie in 0..1")
    return value
