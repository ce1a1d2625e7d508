"""The runs of a reproduction that are done: one file of packed JSON, written anew after every run.

A record is used again only if its run would be configured the same today. Where it ran is no part of
the configuration (it is recorded with it), so records from several machines can lie together. Nor is
its name: what two reproductions have in common is run once. A trace has the digits that a page can show.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import platform
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from unknot.core.errors import DataError
from unknot.core.jobs import Score
from unknot.core.metrics import finite
from unknot.experiments.scenario import ALWAYS, LearningCurve, Rates
from unknot.federation import History
from unknot.reproduce.origin import Origin, origin
from unknot.reproduce.reproduction import Run

FORMAT = 1
ENDING = ".json.gz"
DIGITS = 8  # significant, of the numbers of a trace: a page shows six at most


@dataclass(frozen=True)
class Record:
    """What is kept of a run: its course, its costs, what it ran on, the digest of what it served."""

    key: str
    config: Mapping[str, Any]
    method: str
    guarantee: str
    trace: LearningCurve
    rates: Rates | None
    plain: Rates | None
    """Its costs up to the first request."""
    seconds: float
    model: str | None
    machine: Mapping[str, Any]
    commit: str | None
    clean: bool | None
    """Whether the code was that of the commit; None where that is not known."""
    made: str | None
    """When, in UTC."""
    extra: Mapping[str, float]
    """Single figures by name, such as ``final``: the test accuracy of what was served at the end."""

    @staticmethod
    def of(run: Run, history: History, extra: Mapping[str, float], *, together: int = 1) -> Record:
        """`together` is how many runs went side by side: the seconds are those of all of them."""
        engine = history.environment.get("engine", {})
        return Record(
            key=run.key,
            config=plain_json(run.table),
            method=history.method,
            guarantee=history.guarantee,
            trace=LearningCurve.of(history),
            rates=Rates.of(history),
            plain=Rates.of(history, until_request=True),
            seconds=history.seconds["total"],
            model=None if history.model is None else history.model.digest(),
            machine=plain_json(
                {
                    **machine(str(engine.get("device", "cpu"))),
                    **_engine(engine),
                    **({"together": together} if together > 1 else {}),
                }
            ),
            **vars(origin()),
            extra={**extra, **_finals(history)},
        )

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        record["trace"] = short(self.trace.to_dict())
        for name in ("rates", "plain"):
            record[name] = None if record[name] is None else vars(record[name])
        return record

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Record:
        values = {**record, **vars(Origin.of(record))}
        for name in ("config", "machine", "extra", "trace"):
            if not isinstance(values[name], Mapping):
                raise TypeError(f"its {name} is no table")
        _check_columns(values["trace"])
        values["trace"] = LearningCurve.from_dict(values["trace"])
        for name in ("rates", "plain"):
            values[name] = None if values[name] is None else Rates(**values[name])
        return Record(**values)


class Store:
    """The records of a file, found by what they are records of."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records = {record.key: record for record in records}
        self._alike: dict[str, Record] = {}
        for record in self.records.values():
            self._alike.setdefault(same(record.config), record)

    def find(self, key: str, alike: str) -> Record | None:
        """Its own record or, of the same configuration, another's."""
        own = self.records.get(key)
        return own if own is not None and same(own.config) == alike else self._alike.get(alike)


def read(file: Path) -> Store:
    """The records of a file; none where there is no file. One that is as it was is not read again."""
    return _read(file, *(_stamp(path) for path in (file, _plain(file))))


@lru_cache(maxsize=16)
def _read(file: Path, *_: tuple[int, ...] | None) -> Store:
    found = []
    for key, item in kept(file).items():
        with sound(file, key):
            found.append(Record.from_dict(item))
    return Store(found)


@contextmanager
def sound(file: Path, key: str) -> Iterator[None]:
    """What a record lacks is told with the file that has it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{file}: the record {key} is damaged ({lacks}): take it out, and its run is done again"
        ) from None


def _check_columns(trace: Mapping[str, Any]) -> None:
    """Numbers, as many in each; what was not measured is null, but for the round and what it took."""
    columns = [name for name in trace if isinstance(trace[name], list) and name not in ("lane", "requests")]
    for name in dict.fromkeys((*ALWAYS, *columns)):
        gaps = () if name in ALWAYS else (None,)
        if not all(isinstance(value, int | float) or value in gaps for value in trace[name]):
            raise ValueError(f"{name} has what is no number")
        if len(trace[name]) != len(trace["round"]):
            raise ValueError(f"{name} has {len(trace[name])} of {len(trace['round'])} values")


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Another one for every content: a file is replaced, never written into."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def kept(file: Path) -> dict[str, dict[str, Any]]:
    """The same by key, as they are in the file, of whatever kind.

    Records were plain JSON once: those of such a file beside it count, where there is none of that key yet.
    """
    return {**_unpacked(_plain(file)), **_unpacked(file)}


def find(run: Run, stores: Iterable[Store]) -> Record | None:
    """The record of a run: its own or, of the same configuration, another panel's or reproduction's."""
    alike = same(run.table)
    return next((record for store in stores if (record := store.find(run.key, alike)) is not None), None)


def find_earlier(run: Run, stores: Iterable[Store]) -> Record | None:
    """A record of the same panel, line and seed, but of another configuration.

    What was asked of whom is the same: the data set, the method and the requests.
    """
    wanted = _asked(plain_json(run.table))
    found = (store.records.get(run.key) for store in stores)
    return next((record for record in found if record is not None and _asked(record.config) == wanted), None)


def _asked(config: Mapping[str, Any]) -> tuple[Any, ...]:
    names = (config.get(section, {}).get("name") for section in ("data", "method"))
    return config.get("seed"), config.get("request"), *names


def add(file: Path, record: Record) -> None:
    """Put a record into a file, beside those that others may have put there meanwhile."""
    keep(file, record.to_dict())


def keep(file: Path, *items: Mapping[str, Any]) -> None:
    """The same for records of any kind, as they will be in the file; one of plain JSON is taken over."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(file.parent):
        records = {**kept(file), **{item["key"]: item for item in items}}
        lines = ",\n".join(json.dumps(item) for item in records.values())
        partial = file.with_name(f"{file.name}.{os.getpid()}.part")
        partial.write_bytes(_packed(f'{{"format": {FORMAT}, "runs": [\n{lines}\n]}}\n'))
        partial.replace(file)  # whole or not at all: an interruption loses nothing that was done
        _plain(file).unlink(missing_ok=True)


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


def _plain(file: Path) -> Path:
    return file.with_name(file.name.removesuffix(".gz"))


def _packed(text: str) -> bytes:
    """The same text gives the same bytes, whenever: neither date nor name is inside."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as writer:
        writer.write(text.encode())
    return packed.getvalue()


def _unpacked(file: Path) -> dict[str, dict[str, Any]]:
    try:
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        stored = json.loads(text, parse_constant=_constant)
    except FileNotFoundError:
        return {}
    except (ValueError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a file of records ({error}): move it away to begin anew") from None
    found = stored.get("format") if isinstance(stored, dict) else None
    if found != FORMAT:
        raise DataError(f"{file} has format {found!r}, not {FORMAT}: move it away to begin anew")
    if not isinstance(stored.get("runs"), list):
        raise DataError(f"{file} has no list of runs: move it away to begin anew")
    records: dict[str, dict[str, Any]] = {}
    for place, item in enumerate(stored["runs"], start=1):
        key = item.get("key") if isinstance(item, dict) else None
        if not isinstance(key, str):
            raise DataError(f"{file}: record {place} of {len(stored['runs'])} has no key: take it out")
        if key in records:
            raise DataError(f"{file} has two records {key}: take out the one that is wrong")
        records[key] = item
    return records


def _constant(name: str) -> float:
    """A setting may be without end; what is no number was never measured."""
    if name == "NaN":
        raise ValueError("it has NaN where a number should be")
    return float(name)


def same(config: Mapping[str, Any]) -> str:
    """A text that two configurations share if they are the same but for their names; 10 is 10.0."""
    return json.dumps({key: _number(value) for key, value in config.items() if key != "name"}, sort_keys=True)


def _number(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def short(value: Any) -> Any:
    """With as many digits of every number as a record keeps."""
    if isinstance(value, Mapping):
        return {key: short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [short(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def plain_json(value: Any) -> Any:
    """As it will be read back: tuples are lists, numbers are what JSON knows."""
    return json.loads(json.dumps(value))


@cache
def machine(device: str) -> dict[str, Any]:
    """Where a run ran, in words that a reader can place."""
    words = {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.startswith("cuda") and torch.cuda.is_available():
        words["gpu"] = torch.cuda.get_device_name(torch.device(device))
    return words


def _finals(history: History) -> dict[str, float]:
    """How what was served did in the end on test data, and what else could have been."""
    named: dict[str, Mapping[str, Score]] = {"final": history.scores}
    named |= {f"final {name}": scores for name, scores in history.choices.items()}
    found: dict[str, float] = {}
    for name, scores in named.items():
        if "test" in scores:
            found |= {name: scores["test"].value, f"{name} loss": finite(scores["test"].loss)}
    return found


def _engine(described: Mapping[str, Any]) -> dict[str, Any]:
    return {name: described[name] for name in ("engine", "path", "device", "dtype") if name in described}


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
