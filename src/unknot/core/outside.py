"""What is written down of a kept run by others than itself lies outside of its folder."""

from __future__ import annotations

from pathlib import Path

from unknot.core.errors import ConfigError


def check_outside(what: str, place: str | Path, folder: str | Path) -> None:
    """Raise where `what` would write into the `folder` of a run, or below it, whatever links lead there.

    Nothing may lie there that knows a client and that an erasure does not reach.
    """
    inner, path = Path(folder).resolve(), Path(place)
    for found in (path.resolve(), path.parent.resolve() / path.name):
        if inner in (found, *found.parents):
            raise ConfigError(
                f"{what} would write into {folder}, the folder of the run, of which an erasure takes all "
                "that knows the erased client: name a place outside of it"
            )
