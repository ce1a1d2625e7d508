"""The runs of a reproduction that are done: what is kept of each, checked when it is read.

A record is used again only if its run would be configured the same today. Where it ran is no part of
the configuration (it is recorded with it), so records from several machines can lie together. Nor is
its name: what two reproductions have in common is run once. A trace has the digits that a page can show.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import torch

from unknot.core.errors import ConfigError, DataError
from unknot.core.fields import choose, convert
from unknot.core.jobs import Score
from unknot.core.metrics import ACCURACY, METRICS, Metric, finite
from unknot.experiments.scenario import ALWAYS, Asked, LearningCurve, Rates
from unknot.federation import History
from unknot.reproduce.origin import origin
from unknot.reproduce.record_file import keep, kept, stamp, taking_out
from unknot.reproduce.reproduction import Run

DIGITS = 8  # significant, of the numbers of a trace: a page shows six at most
Word = str | int | float | bool | None
"""What is known of a machine."""


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
    machine: Mapping[str, Word]
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
        values = fits(Record, {**UNDATED, **record}, endless=("extra",))
        _check_config(values["config"])
        values["config"] = _without_files(values["config"])
        _check_trace(values["trace"])
        _check_extra(values["extra"], METRICS[values["trace"].get("metric", ACCURACY.name)])
        values["trace"] = LearningCurve.from_dict(values["trace"])
        for name in ("rates", "plain"):
            values[name] = None if values[name] is None else Rates(**fits(Rates, values[name], f"{name}."))
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
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{file}: the record {key} is damaged ({lacks}); its run is done again once it is taken out: "
            f"{taking_out(file, key)}"
        ) from None


UNDATED = {"clean": True, "made": None}
"""Of some that do not say it."""
IN_FILES = {LearningCurve: Mapping[str, Any], Rates | None: Mapping[str, Any] | None}
"""What is a table in a file."""
_hints = cache(get_type_hints)


def fits(cls: type, values: object, where: str = "", endless: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass as they are in a file; an error says what is missing, or of another kind.

    Numbers are finite, but for a configuration's, a trace's (`_check_trace`) and those that are `endless`.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where.rstrip('.: ')} must be a table, not {values!r}")
    hints = _hints(cls)
    if more := [name for name in values if name not in hints]:
        raise ConfigError(f"it has {where}{more[0]}, which is no part of a record")
    for field in fields(cls):
        name, value = field.name, values.get(field.name)
        if name in values:
            convert(value, IN_FILES.get(hints[name], hints[name]), f"{where}{name}")
            if name not in ("config", "trace", *endless) and not _finite(value):
                raise ConfigError(f"{where}{name} has what is not finite")
        elif field.default is MISSING:
            raise ConfigError(f"it has no {where}{name}")
    return dict(values)


def _finite(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _check_config(config: Mapping[str, Any]) -> None:
    """As far as records are looked for by it."""
    for section in ("data", "method"):
        convert(config.get(section, {}), Mapping[str, Any], f"config.{section}")
    convert(config.get("request", []), list[Mapping[str, Any]], "config.request")


def _without_files(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Some were run when a history could lie in files (`disk`), which changed nothing of what came of it."""
    method = config.get("method", {})
    if method.get("name") not in ("exact-fun", "fats"):
        return config
    return {**config, "method": {name: value for name, value in method.items() if name != "disk"}}


def _check_trace(trace: Mapping[str, Any]) -> None:
    """Numbers, as many in each; what was not measured is null, but for the round and what it took."""
    for name in ("split", "requests", *ALWAYS):
        if name not in trace:
            raise ConfigError(f"it has no trace.{name}")
    main = choose(METRICS, trace.get("metric", ACCURACY.name), "trace.metric")
    # A share is measured in numbers; a perplexity may be past all of them.
    endless = () if main.share else (main.name, "own", "judged", "before", "after")
    columns = [name for name in trace if isinstance(trace[name], list) and name not in ("lane", "requests")]
    for name in dict.fromkeys((*ALWAYS, *columns)):
        gaps = () if name in ALWAYS else (None,)
        values = convert(trace[name], list[Any], name)
        if not all(_is_number(value) or value in gaps for value in values):
            raise ConfigError(f"{name} has what is no number")
        if name not in endless and not _finite(values):
            raise ConfigError(f"{name} has what is not finite")
    convert(trace["round"], list[int], "round")
    convert(trace.get("lane", []), list[str | None], "lane")
    for name in (*columns, *(["lane"] if "lane" in trace else [])):
        if len(trace[name]) != len(trace["round"]):
            raise ConfigError(f"{name} has {len(trace[name])} of {len(trace['round'])} values")
    convert(trace["split"], str, "split")
    for number, item in enumerate(convert(trace["requests"], list[Any], "requests"), start=1):
        where, points = f"request {number}: ", len(trace["round"])
        values = fits(Asked, item, where, endless)
        choose(dict.fromkeys(("erase", "join")), values["kind"], f"{where}kind")
        if not 0 <= values["place"] <= points:
            raise ConfigError(f"{where}place = {values['place']}, but there are {points} measurements")


def _check_extra(extra: Mapping[str, float], main: type[Metric]) -> None:
    """How it ended may be past all numbers, where the metric may."""
    known = {n: v for n, v in extra.items() if main.share or n.endswith(" loss") or not n.startswith("final")}
    if not _finite(known):
        raise ConfigError("extra has what is not finite")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
