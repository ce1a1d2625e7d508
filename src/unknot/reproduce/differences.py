"""In which settings a record differs from what is configured today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST = 3  # settings that are named


def difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """``train.lr is 0.1, today 0.2``: the first settings that differ."""
    old, new = dict(_settings(then)), dict(_settings(now))
    names = [
        name for name in dict.fromkeys((*old, *new)) if name != "name" and old.get(name) != new.get(name)
    ]
    said = [f"{name} is {_shown(old.get(name))}, today {_shown(new.get(name))}" for name in names[:MOST]]
    more = len(names) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more else "")


def _settings(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _settings(value, f"{name}.")
        else:
            yield name, value


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
