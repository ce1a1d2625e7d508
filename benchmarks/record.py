"""What a benchmark found, with what it takes to find it again: a JSON file that pages cite.

A file has a record a command: run once more, it replaces its own and leaves the others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unknot.reproduce.origin import origin
from unknot.reproduce.records import machine, plain_json


def write(path: Path, command: str, found: Any, device: str = "cpu") -> None:
    """Put what a command found into the file, with the commit, the machine and the time."""
    records = json.loads(path.read_text()) if path.exists() else {}
    records[command] = {**vars(origin()), "machine": machine(device), "found": plain_json(found)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    partial.replace(path)
