"""The file of a reproduction's records, of whatever kind: packed JSON, written anew as a whole."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unknot.core.errors import DataError

FORMAT = 1
ENDING = ".json.gz"


def kept(file: Path) -> dict[str, dict[str, Any]]:
    """The records of a file by key, of whatever kind; none where there is no file."""
    try:
        stored = json.loads(gzip.decompress(file.read_bytes()))
    except FileNotFoundError:
        return {}
    except (ValueError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a file of records ({error}): move it away to begin anew") from None
    found = stored.get("format") if isinstance(stored, dict) else None
    if found != FORMAT:
        raise DataError(f"{file} has format {found!r}, not {FORMAT}: move it away to begin anew")
    return {item["key"]: item for item in stored["runs"]}


def keep(file: Path, *items: Mapping[str, Any]) -> None:
    """Put records into a file, beside those that others put there meanwhile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(file.parent):
        _write(file, {**kept(file), **{item["key"]: item for item in items}}.values())


def drop(file: str | Path, key: str) -> None:
    """Take a record out of a file: its run is done again."""
    with _alone(Path(file).parent):
        _write(Path(file), [item for item in kept(Path(file)).values() if item["key"] != key])


def taking_out(file: Path, key: str) -> str:
    """What to type."""
    told = f"{json.dumps(str(file), ensure_ascii=False)}, {json.dumps(key, ensure_ascii=False)}"
    return f"python -c {shlex.quote(f'from unknot.reproduce.record_file import drop; drop({told})')}"


def stamp(file: Path) -> tuple[int, ...] | None:
    """Another one for every content: a file is replaced, never written into."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time adds to the records of a folder, where the system can lock one."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _write(file: Path, items: Iterable[Any]) -> None:
    lines = ",\n".join(json.dumps(item) for item in items)
    text = f'{{"format": {FORMAT}, "runs": [\n{lines}\n]}}\n'
    partial = file.with_name(f"{file.name}.{os.getpid()}.part")
    partial.write_bytes(_packed(text))
    partial.replace(file)  # whole or not at all: an interruption loses nothing that was done


def _packed(text: str) -> bytes:
    """The same text gives the same bytes, whenever: neither date nor name is inside."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as writer:
        writer.write(text.encode())
    return packed.getvalue()
