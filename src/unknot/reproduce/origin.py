"""What a record was made with, and when: the commit of the code, and whether its files were that commit's."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

CODE = Path(__file__)


@dataclass(frozen=True)
class Origin:
    """Where a record comes from; None is not known."""

    commit: str | None
    clean: bool | None
    made: str | None
    """The date and the second, in UTC."""


def origin() -> Origin:
    """Of a record that is made now."""
    commit, clean = _code()
    return Origin(commit, clean, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


@cache
def _code() -> tuple[str | None, bool | None]:
    """The commit of the code that runs, and whether that is all: of its checkout, or as it was installed."""
    return _checkout(CODE) or _installed() or (None, None)


def _checkout(code: Path) -> tuple[str, bool] | None:
    """None where git does not know the file: an installed copy may lie inside another's checkout."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(code.parents[2]), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "--", str(code))
        return git("rev-parse", "--short=12", "HEAD"), not git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None


def _installed() -> tuple[str, bool] | None:
    """Where it was installed from a repository by its address, pip has written down the commit."""
    try:
        found = metadata.distribution("unknot")
    except metadata.PackageNotFoundError:
        return None
    if Path(str(found.locate_file("unknot"))).resolve() != CODE.resolve().parents[1]:
        return None  # another copy than the one that runs
    commit = json.loads(found.read_text("direct_url.json") or "{}").get("vcs_info", {}).get("commit_id")
    return None if commit is None else (commit[:12], True)
