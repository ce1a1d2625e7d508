"""Where files are looked for that do not come with unknot: data sets, language models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "UNKNOT_DATA"

Root = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


def folders(root: Root = None) -> tuple[Path, ...]:
    """The folders to look in, in order: `root`, or else those that $UNKNOT_DATA names.

    Several are allowed, in the variable separated as in PATH: shared data is often read-only, and
    what is unpacked from it lies elsewhere.
    """
    if root is None:
        return tuple(Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part)
    if isinstance(root, str | os.PathLike):
        return (Path(root),)
    return tuple(Path(part) for part in root)


def located(path: str | os.PathLike[str], *near: Path) -> Path:
    """A path from the working directory, else below `near`, else below the folders that $UNKNOT_DATA names.

    Where there is nothing at any of them: the path as it was given.
    """
    given = Path(path)
    places = [given, *(place / given for place in (*near, *folders()))]
    return next((place for place in places if os.path.exists(place)), given)
