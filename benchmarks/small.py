"""What every benchmark understands: ``--small`` runs all of it in seconds, to see that it runs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any


def parse(
    parser: ArgumentParser, names: dict[str, Any], arguments: Sequence[str] | None = None, **small: Any
) -> Namespace:
    """The options; with ``--small``, these values for options that are left out and for constants.

    Args:
        names: `globals()` of the benchmark; what is in capitals is a constant there.
    """
    parser.add_argument("--small", action="store_true", help="runs in seconds; the figures mean nothing")
    if parser.parse_known_args(arguments)[0].small:
        parser.set_defaults(**{name: value for name, value in small.items() if name.islower()})
        names.update((name, value) for name, value in small.items() if name.isupper())
    return parser.parse_args(arguments)
