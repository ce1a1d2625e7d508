"""Which kind of file a language model lies in."""

from __future__ import annotations

from pathlib import Path

from unknot.core.errors import DataError
from unknot.core.places import VARIABLE, folders
from unknot.models.borrowed import Others
from unknot.models.files import folder, gguf, llama2c
from unknot.models.files.checkpoint import Checkpoint, reading
from unknot.text.gguf import Gguf


def checkpoint(path: Path) -> Checkpoint | Others:
    """What lies at a path."""
    if not path.exists():
        also = "".join(f", nor in {place}" for place in folders()) or f"; ${VARIABLE} names no other folder"
        raise DataError(
            f"there is no language model {str(path)!r}: no file or folder is called so in {Path.cwd()}{also}"
        )
    with reading(path):
        if path.is_dir():
            found = folder.read(path)
            return Others(path, found) if isinstance(found, str) else found
        with path.open("rb") as stream:
            head = stream.read(28)
        if head[:4] == b"GGUF":
            return gguf.read(Gguf.open(path))
        if path.suffix == ".bin":
            return llama2c.read(path, head)
    raise DataError(
        f"{path} is no language model that can be read: it should be a GGUF file, a folder with config.json, "
        "or llama2c's .bin. Was it fetched whole?"
    )
