"""The runs of a reproduction that are done: what is kept of each.

A record is used again only if its run would be configured the same today. Where it ran is no part of
the configuration (it is recorded with it), so records from several machines can lie together. Nor is
its name: what two reproductions have in common is run once. Numbers have the digits that a page can show.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import torch

from unknot.core.errors import DataError
from unknot.experiments.scenario import LearningCurve
from unknot.federation import History
from unknot.reproduce.lifted import lifted
from unknot.reproduce.origin import origin
from unknot.reproduce.record_file import keep, kept, stamp, taking_out
from unknot.reproduce.reproduction import Run

DIGITS = 8  # significant, of the numbers of a run: a page shows six at most
Word = str | int | float | bool | None
"""What is known of a machine."""


@dataclass(frozen=True)
class Record:
    """What is kept of a run: what happened in it, what it ran on, and single figures."""

    key: str
    config: Mapping[str, Any]
    history: History
    """Without who was at work when, which its configuration gives again."""
    machine: Mapping[str, Word]
    commit: str | None
    clean: bool | None
    """Whether the code was that of the commit; None where that is not known."""
    made: str | None
    """When, in UTC."""
    extra: Mapping[str, float]
    """Single figures by name."""

    @staticmethod
    def of(run: Run, history: History, extra: Mapping[str, float], *, together: int = 1) -> Record:
        """`together` is how many runs went side by side: the seconds are those of all of them."""
        engine = history.environment.get("engine", {})
        return Record(
            key=run.key,
            config=plain_json(run.table),
            history=_short(history),
            machine=plain_json(
                {
                    **machine(str(engine.get("device", "cpu"))),
                    **_engine(engine),
                    **({"together": together} if together > 1 else {}),
                }
            ),
            **vars(origin()),
            extra=dict(extra),
        )

    @cached_property
    def trace(self) -> LearningCurve:
        return LearningCurve.of(self.history)

    def to_dict(self) -> dict[str, Any]:
        history = rounded(self.history.to_dict(), DIGITS)
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "history": history}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Record:
        if "trace" in record:
            return Record(**lifted(record))
        return Record(**{**record, "history": History.of(record["history"])})


def _short(history: History) -> History:
    """What of a run's record is kept with many others."""
    return History(
        replace(history.begun, setup={}, experiment={}, members={}, nodes={}),
        [replace(one, trips=()) for one in history.rounds],
        [replace(one, trips=(), visits=()) for one in history.served],
        replace(history.end(), apart=(), environment={}),
    )


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
    return _read(file, stamp(file))


@lru_cache(maxsize=16)
def _read(file: Path, _: tuple[int, ...] | None) -> Store:
    found = []
    for key, item in kept(file).items():
        with sound(file, key):
            found.append(Record.from_dict(item))
    return Store(found)


@contextmanager
def sound(file: Path, key: str) -> Iterator[None]:
    """What is wrong with a record is told with the file that has it, and with what takes it out."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{file}: the record {key} is damaged ({lacks}); its run is done again once it is taken out: "
            f"{taking_out(file, key)}"
        ) from None


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


def same(config: Mapping[str, Any]) -> str:
    """A text that two configurations share if they are the same but for their names; 10 is 10.0."""
    return json.dumps({key: _number(value) for key, value in config.items() if key != "name"}, sort_keys=True)


def _number(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def rounded(value: Any, digits: int) -> Any:
    """With so many significant digits of every number."""
    if isinstance(value, Mapping):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


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
