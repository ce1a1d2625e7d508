"""Parts of a page that a command writes: each lies between two comments that name it.

So several commands, and people, share one page: who writes a part leaves the others as they are.
"""

from __future__ import annotations

import re
from pathlib import Path


def put(page: str, name: str, text: str) -> str:
    """The page with this text as the part of that name; a part that it has not yet comes last."""
    part = f"<!-- {name}: begin -->\n\n{text.strip()}\n\n<!-- {name}: end -->"
    begun, ended = (
        len(re.findall(f"^<!-- {name}: {at} -->$", page, re.MULTILINE)) for at in ("begin", "end")
    )
    if (begun, ended) == (0, 0):
        return f"{page.rstrip()}\n\n{part}\n".lstrip()
    found = re.search(f"^<!-- {name}: begin -->$.*?^<!-- {name}: end -->$", page, re.MULTILINE | re.DOTALL)
    if found is None or (begun, ended) != (1, 1):
        raise ValueError(
            f"the page's part {name!r} cannot be found: it must begin with a line <!-- {name}: begin --> and "
            f"end with one <!-- {name}: end -->, once each"
        )
    return page[: found.start()] + part + page[found.end() :]


def write(path: Path, **parts: str) -> None:
    """Write these parts of the page, and nothing else of it; a page that is not there is begun."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, text in parts.items():
        page = put(page, name, text)
    path.write_text(page, encoding="utf-8")
