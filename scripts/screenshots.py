"""Take pages through a real browser: ``python scripts/screenshots.py build/site/index.html report.html …``.

Chromium opens each of them light and dark, wide and narrow, and leaves a picture in build/screenshots. What
a page asks of the network is let through to nowhere and counted; a page that asks, or that reports an error
on its console, fails.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTHS = (1200, 400)
"""Pixels: a desk, a telephone. """
TALL = 2400
SCHEMES = {"light": 1, "dark": 0}
"""What Chromium calls them."""
LIMIT = 60  # seconds for one picture
ASKS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b[^>]*\brel=["']?(?:preconnect|dns-prefetch)\b[^>]*>"""
    r"""|@import|url\(["']?(?:https?:)?//""",
    re.IGNORECASE,
)
"""What has a browser ask somebody else, in a page's own text: hints leave no request in Chromium's record."""


@dataclass(frozen=True)
class Shot:
    """A picture, and what the page did that it must not."""

    picture: Path
    requests: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def well(self) -> bool:
        return self.picture.exists() and not self.requests and not self.errors


def shoot(page: Path, out: Path, width: int, scheme: str, browser: str) -> Shot:
    """One page, once."""
    picture = out.resolve() / f"{page.parent.name}-{page.stem}-{width}-{scheme}.png"
    picture.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "net.json"
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder}/profile",
            f"--log-net-log={log}",
            "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            f"--screenshot={picture}",
            f"--window-size={width},{TALL}",
            _framed(page, width, Path(folder)).as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        asked = requests_in(log.read_text()) if log.exists() else ("Chromium left no record of requests",)
    return Shot(picture, (*asked, *asks_in(page.read_text())), errors_in(done.stderr))


def _framed(page: Path, width: int, folder: Path) -> Path:
    """A page that shows this one at its width: no window is narrower than 500 pixels."""
    frame = folder / "frame.html"
    look = f"border: 0; width: {width}px; height: {TALL}px"
    frame.write_text(
        "<!doctype html><style>:root { color-scheme: light dark } body { margin: 0 }</style>"
        f'<iframe src="{escape(page.resolve().as_uri())}" style="{look}"></iframe>'
    )
    return frame


def requests_in(log: str) -> tuple[str, ...]:
    """The addresses on the network that pages asked for, of Chromium's record of its network.

    What it asks for by itself (the time, dictionaries) has no page as its origin.
    """
    lines = (line.rstrip(",\n") for line in log.splitlines() if '"initiator"' in line)
    asked = [json.loads(line).get("params", {}) for line in lines if line.startswith("{")]
    found = [str(one.get("url", "")) for one in asked if one.get("initiator") != "not an origin"]
    return tuple(dict.fromkeys(url for url in found if not url.startswith(("file:", "data:", "blob:"))))


def asks_in(text: str) -> tuple[str, ...]:
    """What in a page's text has a browser turn to another machine; a link to be followed is none."""
    return tuple(found[0] for found in ASKS.finditer(text))


def errors_in(said: str) -> tuple[str, ...]:
    """What pages wrote to the console as errors: what the policy refused, too."""
    lines = re.findall(r":(?:ERROR|INFO|WARNING):CONSOLE[^\]]*\] (.*)", said)
    return tuple(line for line in lines if re.search(r"error|refused|violat|failed", line, re.IGNORECASE))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"))
    options = parser.parse_args(given)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.stderr.write("Chromium is needed: apt-get install chromium\n")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    for page in options.pages:
        for width in WIDTHS:
            for scheme in SCHEMES:
                shot = shoot(page, options.out, width, scheme, browser)
                bad += not shot.well
                wrong = [*(f"asked for {one}" for one in shot.requests), *shot.errors]
                wrong += [] if shot.picture.exists() else ["no picture came of it"]
                sys.stdout.write("\n  ".join([str(shot.picture), *wrong]) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
