"""What pages show: their blocks of code, and the files in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def write_files(page: str, folder: Path) -> None:
    """The files of a page: those that say their name, in a comment or as that of the run, and tables."""
    for text in blocks(page, "toml"):
        if name := re.match(r"# (\S+\.toml)", text):
            (folder / name[1]).write_text(text)
        elif name := re.match(r'name = "(.*)"', text):
            (folder / f"{name[1].replace(' ', '-')}.toml").write_text(text)
    for text in blocks(page, "console"):
        for name, shown in re.findall(r"^\$ cat (\S+)\n((?:[^$].*\n)+)", text, flags=re.MULTILINE):
            (folder / name).write_text(shown)
