"""Install the small package beside this file as an installer would, without the network."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

PACKAGE = Path(__file__).parent / "package"


def install(folder: Path) -> Path:
    """Its modules and its metadata, into a folder that is then put on the path."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copytree(PACKAGE / "unknot_outside", folder / "unknot_outside", dirs_exist_ok=True)
    info = folder / f"unknot_outside-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder
