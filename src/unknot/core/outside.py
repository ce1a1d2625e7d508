"""What is written down of a kept run by others than itself lies outside of its folder."""

from __future__ import annotations

from pathlib import Path

from unknot.core.errors import ConfigError


def within(folder: str | Path, place: str | Path) -> bool:
    """Whether a place is a folder, lies in or below it, or leads there."""
    inner, path = Path(folder).resolve(), Path(place)
    found = path.resolve(), path.parent.resolve() / path.name
    return any(inner in (one, *one.parents) for one in found)


def check_outside(what: str, place: str | Path, folder: str | Path) -> None:
    """Raise where `what` would write into the `folder` of a run, or below it, whatever links lead there.

    Nothing may lie there that knows a client and that an erasure does not reach.
    """
    if within(folder, place):
        raise ConfigError(
            f"{what} would write into {folder}, the folder of the run, of which an erasure takes all "
            "that knows the erased client: name a place outside of it"
        )
