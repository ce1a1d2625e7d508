"""Tables as TOML text: the other way from `tomllib`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from unknot.core.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def to_toml(table: Mapping[str, Any]) -> str:
    """A file of sections as `tomllib` would read it back; within a section, tables stand in one line.

    What is None is left out, since TOML does not know it.
    """
    lines, sections = [], []
    for key, value in table.items():
        if isinstance(value, Mapping):
            sections += ["", f"[{key_to_toml(key)}]", *_pairs(value)]
        elif isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                sections += ["", f"[[{key_to_toml(key)}]]", *_pairs(one)]
        else:
            lines += _pairs({key: value})
    return "\n".join([*lines, *sections]).lstrip("\n") + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [
        f"{key_to_toml(key)} = {value_to_toml(value)}" for key, value in table.items() if value is not None
    ]


def key_to_toml(key: str) -> str:
    """A key as it stands before its value."""
    return key if _BARE.match(key) else _text(key)


def value_to_toml(value: Any) -> str:
    """A value as it stands behind its key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_to_toml, value))}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(_pairs(value))
        return f"{{ {pairs} }}" if pairs else "{}"
    raise ConfigError(f"{value!r} cannot be written as TOML: give a number, a text, a list or a table")


def _text(text: str) -> str:
    """JSON's way to write a text is TOML's, but for one letter that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
