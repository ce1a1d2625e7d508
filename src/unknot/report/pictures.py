"""Figures as small files that say what they show: of the same findings, the same bytes.

A figure has few colours: as a palette it takes a fifth of the room. What it was drawn from is inside as a
digest, so that one can tell without drawing it whether it still is what the records give.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unknot.report.cells import Shown
from unknot.report.colours import COLOURS

Bytes = NDArray[np.uint8]

DPI = 150  # at a page's width every pixel of a sharp screen
PALETTE = 64  # colours: half of them those of lines and the commonest, as they are; half for edges
LINES = np.array([tuple(bytes.fromhex(colour[1:])) for colour in COLOURS], dtype=np.uint8)
NOT_DRAWN = (
    "paper",
    "claim",
    "verdicts",
    "not_judged",
    "machines",
    "commits",
    "doubts",
)  # of findings, what no figure shows
DIGITS = 6  # significant: the last bits of a mean may be another machine's
PUBLISHED = ("published", "published_for", "published_by")
NOT_IN_PANELS = ("note", "reason", "earlier", *PUBLISHED, "without", "chance")
NOT_IN_LINES = (
    *("by_seed", "ends", "partly", "watched", "brief", "spared", "costs", "seconds", "guarantee"),
    *("choices", "judged", "central", "note"),
)
"""What the page says and no figure shows."""
KEY = "findings"


def _without(shown: Shown, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in names}


def digest(findings: Shown) -> str:
    """Of what a figure of these findings shows."""
    drawn = _without(findings, NOT_DRAWN)
    bars = findings.get("bars") or ()

    def line(shown: Shown) -> dict[str, Any]:
        measures = {name: value for name, value in shown.get("measures", {}).items() if name in bars}
        return {**_without(shown, (*NOT_IN_LINES, "measures")), **({"measures": measures} if bars else {})}

    drawn["panels"] = [
        {
            **_without(panel, NOT_IN_PANELS),
            "lines": [line(shown) for shown in panel["lines"]],
            **({"earlier": True} if panel.get("earlier") else {}),  # of that, that it is so
        }
        for panel in findings["panels"]
        if panel["lines"]
    ]
    return hashlib.sha256(json.dumps(_short(drawn), sort_keys=True).encode()).hexdigest()[:16]


def drawn_from(file: Path) -> str | None:
    """The digest inside a picture (.png); None where there is no picture, none inside, or it is damaged."""
    from PIL import Image

    try:
        with Image.open(file) as picture:
            picture.verify()
            inside: str | None = picture.info.get(KEY)
            return inside
    except (OSError, SyntaxError):  # which PIL raises of a damaged picture
        return None


def save(figure: Any, files: Iterable[str | Path], shows: str) -> None:
    """Write a figure of matplotlib to files (.png, .svg), with the digest of what it `shows`."""
    _settle_ticks(figure)
    for file in files:
        if str(file).endswith(".svg"):
            figure.savefig(file, metadata={"Date": None})
        else:
            Path(file).write_bytes(_small(figure, shows))


def _settle_ticks(figure: Any) -> None:
    """Ticks go by an axis's length, and the layout by their labels: once they are fixed, labels are whole."""
    from matplotlib.ticker import AutoLocator

    figure.draw_without_rendering()
    for axes in figure.axes:
        if isinstance(axes.xaxis.get_major_locator(), AutoLocator):
            low, high = sorted(axes.get_xlim())
            axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    figure.draw_without_rendering()


def _small(figure: Any, shows: str) -> bytes:
    from PIL import Image, PngImagePlugin

    whole, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(whole, format="png", dpi=DPI)
    inside = PngImagePlugin.PngInfo()
    inside.add_text(KEY, shows)
    with Image.open(whole) as picture:
        coloured = picture.convert("RGB")
    others = coloured.quantize(PALETTE // 2, Image.Quantize.MEDIANCUT).getpalette() or []
    few, palette = _nearest(np.asarray(coloured), np.array(others, dtype=np.uint8).reshape(-1, 3))
    indexed = Image.fromarray(few)
    indexed.putpalette(palette.tobytes())
    indexed.save(packed, format="png", optimize=True, pnginfo=inside)
    return packed.getvalue()


def _nearest(picture: Bytes, others: Bytes) -> tuple[Bytes, Bytes]:
    """The palette, of lines' colours, the commonest and others, and the place in it of each pixel's nearest.

    A line may lie below another one, and be seen in the legend alone: it has its colour there all the same.
    No dithering: dots around letters blur them.
    """
    red, green, blue = np.moveaxis(picture.astype(np.int64), -1, 0)
    mixed = red << 16 | green << 8 | blue
    found, which, times = np.unique(mixed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.uint8)
    lines = (colours[:, None] == LINES).all(-1).any(1)
    common = np.argsort(-(times + lines * picture.size), kind="stable")[: PALETTE - len(others)]
    palette = np.unique(np.concatenate([colours[common], others]), axis=0)
    apart = ((colours[:, None].astype(int) - palette.astype(int)) ** 2).sum(-1)
    return apart.argmin(1).astype(np.uint8)[which.reshape(mixed.shape)], palette


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
