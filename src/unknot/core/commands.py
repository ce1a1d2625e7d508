"""Commands as they are typed, for what people are told to do next."""

from __future__ import annotations

import shlex
from pathlib import Path


def command(verb: str, folder: str | Path) -> str:
    """What is typed to do this to the run in a folder, whatever that is called."""
    place = str(folder)
    return f"unknot {verb} {shlex.quote(f'./{place}' if place.startswith('-') else place)}"
