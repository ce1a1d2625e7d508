"""Which kind of file a language model lies in."""

from __future__ import annotations

from pathlib import Path

from unknot.core.errors import DataError
from unknot.core.places import VARIABLE, folders
from unknot.models.files import folder, gguf, llama2c
from unknot.models.files.checkpoint import Checkpoint
from unknot.text.gguf import Gguf


def checkpoint(path: Path) -> Checkpoint | str:
    """What lies at a path; of a folder that is for others to read, why we do not."""
    if path.is_dir():
        return folder.read(path)
    if not path.exists():
        also = "".join(f", nor in {place}" for place in folders()) or f"; ${VARIABLE} names no other folder"
        raise DataError(
            f"there is no language model {str(path)!r}: no file or folder is called so in {Path.cwd()}{also}"
        )
    try:
        with path.open("rb") as stream:
            head = stream.read(28)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    if head[:4] == b"GGUF":
        return gguf.read(Gguf.open(path))
    if path.suffix == ".bin":
        return llama2c.read(path, head)
    if path.suffix.lower() == ".gguf":
        raise DataError(f"{path} is no GGUF file: it does not begin as GGUF files do. Was it fetched whole?")
    raise DataError(
        f"{path} is no language model that can be read: it should be a GGUF file, a folder with config.json, "
        "or llama2.c's .bin"
    )
