"""Whether a picture or a page can be written: asked before a long run rather than after it."""

from __future__ import annotations

import os
from pathlib import Path

from unknot.core.errors import ConfigError

PICTURES, PAGES = (".png", ".svg", ".pdf"), (".html", ".htm")


def check_picture(
    file: str | Path, endings: tuple[str, ...] = PICTURES, made: str | Path | None = None
) -> None:
    """That its ending is one of those that can be drawn, and its place one that can be written to.

    `made` is a folder that will be there by then.
    """
    if Path(file).suffix.lower() not in endings:
        words = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise ConfigError(f"cannot draw {Path(file).name}: the file must end in {words}")
    place = Path(file)
    if made is None or place.parent.exists() or place.parent.resolve() != Path(made).resolve():
        check_place(place)


def check_page(file: str | Path) -> None:
    if Path(file).suffix.lower() not in PAGES:
        raise ConfigError(f"cannot write {Path(file).name}: the page's name must end in .html")
    check_place(file)


def check_place(file: str | Path) -> None:
    """That a file can be written there. Nothing is made yet."""
    place = Path(file)
    if place.is_dir():
        raise ConfigError(f"cannot write {place}: that is a folder; name a file")
    if not place.parent.is_dir():
        raise ConfigError(
            f"cannot write {place}: there is no folder {place.parent}; make it, or name another"
        )
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise ConfigError(f"cannot write {place}: you may not write there; name another place")


def write(file: str | Path, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None
