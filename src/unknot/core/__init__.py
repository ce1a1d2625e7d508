"""The values that everything else is made of. Imports torch and numpy only."""

from typing import TYPE_CHECKING

from unknot.core.lazy import names as _names

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names(__name__, ())
