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
    """The records of a file by key, of whatever kind; none where there is no file.

    Records were plain JSON once: those of such a file beside it count, where there is none of that key yet.
    """
    return {**_unpacked(plain_file(file)), **_unpacked(file)}


def keep(file: Path, *items: Mapping[str, Any]) -> None:
    """Put records into a file, beside those that others put there meanwhile; plain JSON is taken over."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(file.parent):
        _write(file, {**kept(file), **{item["key"]: item for item in items}}.values())
        plain_file(file).unlink(missing_ok=True)


def drop(file: str | Path, which: str | int) -> None:
    """Take a record out of a file: its run is done again.

    By its key (all of that key), or, where it has none, by its number in the file, from 1.
    """
    found = False
    with _alone(Path(file).parent):
        for path in dict.fromkeys((Path(file), plain_file(Path(file)))):
            items = _listed(path)
            left = [item for place, item in enumerate(items, start=1) if which not in (place, _key(item))]
            if len(left) < len(items):
                _write(path, left)
                found = True
    if not found:
        raise DataError(f"{file} has no record {which}")


def taking_out(file: Path, which: str | int) -> str:
    """What to type."""
    told = f"{json.dumps(str(file), ensure_ascii=False)}, {json.dumps(which, ensure_ascii=False)}"
    return f"python -c {shlex.quote(f'from unknot.reproduce.record_file import drop; drop({told})')}"


def stamp(file: Path) -> tuple[int, ...] | None:
    """Another one for every content: a file is replaced, never written into."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def plain_file(file: Path) -> Path:
    return file.with_name(file.name.removesuffix(".gz"))


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
    partial.write_bytes(_packed(text) if file.suffix == ".gz" else text.encode())
    partial.replace(file)  # whole or not at all: an interruption loses nothing that was done


def _packed(text: str) -> bytes:
    """The same text gives the same bytes, whenever: neither date nor name is inside."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as writer:
        writer.write(text.encode())
    return packed.getvalue()


def _unpacked(file: Path) -> dict[str, dict[str, Any]]:
    records: dict[str, dict[str, Any]] = {}
    items = _listed(file)
    for place, item in enumerate(items, start=1):
        if (key := _key(item)) is None:
            raise DataError(
                f"{file}: record {place} of {len(items)} has no key; this takes it out: "
                f"{taking_out(file, place)}"
            )
        if key in records:
            raise DataError(
                f"{file} has two records {key}; their run is done again once both are taken out: "
                f"{taking_out(file, key)}"
            )
        records[key] = item
    return records


def _key(item: object) -> str | None:
    key = item.get("key") if isinstance(item, dict) else None
    return key if isinstance(key, str) else None


def _listed(file: Path) -> list[Any]:
    """What is in a file of records, whatever that is; nothing where there is no file."""
    try:
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        stored = json.loads(text, parse_constant=_constant)
    except FileNotFoundError:
        return []
    except (ValueError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a file of records ({error}): move it away to begin anew") from None
    found = stored.get("format") if isinstance(stored, dict) else None
    if found != FORMAT:
        raise DataError(f"{file} has format {found!r}, not {FORMAT}: move it away to begin anew")
    items = stored.get("runs")
    if not isinstance(items, list):
        raise DataError(f"{file} has no list of runs: move it away to begin anew")
    return items


def _constant(name: str) -> float:
    """A setting may be without end; what is no number was never measured."""
    if name == "NaN":
        raise ValueError("it has NaN where a number should be")
    return float(name)
