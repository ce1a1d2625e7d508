"""The runs of a reproduction that are done: one JSON file, written anew after every run.

A record is used again only if its run would be configured the same today. Where it ran is no part of
the configuration (it is recorded with it), so records from several machines can lie together. Nor is
its name: what two reproductions have in common is run once.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from unknot.core.errors import DataError
from unknot.core.jobs import Score
from unknot.core.metrics import finite
from unknot.experiments.scenario import LearningCurve, Rates
from unknot.federation import History
from unknot.reproduce.reproduction import Run

FORMAT = 1


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
    extra: Mapping[str, float]
    """Single figures by name, such as ``final``: the test accuracy of what was served at the end."""

    @staticmethod
    def of(run: Run, history: History, extra: Mapping[str, float]) -> Record:
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
            machine=plain_json({**machine(str(engine.get("device", "cpu"))), **_engine(engine)}),
            commit=commit(),
            extra={**extra, **_finals(history)},
        )

    def to_dict(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        record["trace"] = self.trace.to_dict()
        for name in ("rates", "plain"):
            record[name] = None if record[name] is None else vars(record[name])
        return record

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Record:
        values = dict(record)
        values["trace"] = LearningCurve.from_dict(values["trace"])
        for name in ("rates", "plain"):
            values[name] = None if values[name] is None else Rates(**values[name])
        return Record(**values)


def read(file: Path) -> dict[str, Record]:
    """The records of a file by key; none where there is no file."""
    return {key: Record.from_dict(item) for key, item in kept(file).items()}


def kept(file: Path) -> dict[str, dict[str, Any]]:
    """The same as they are in the file, of whatever kind."""
    try:
        stored = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise DataError(f"{file} is not a file of records ({error}): move it away to begin anew") from None
    if stored.get("format") != FORMAT:
        raise DataError(
            f"{file} has format {stored.get('format')!r}, not {FORMAT}: move it away to begin anew"
        )
    return {item["key"]: item for item in stored["runs"]}


def find(run: Run, stores: Iterable[Mapping[str, Record]]) -> Record | None:
    """The record of a run: its own or, of the same configuration, another panel's or reproduction's."""
    wanted = _nameless(plain_json(run.table))
    for store in stores:
        own = [store[run.key]] if run.key in store else []
        for record in (*own, *store.values()):
            if _nameless(record.config) == wanted:
                return record
    return None


def add(file: Path, record: Record) -> None:
    """Put a record into a file, beside those that others may have put there meanwhile."""
    keep(file, record.to_dict())


def keep(file: Path, *items: Mapping[str, Any]) -> None:
    """The same for records of any kind, as they will be in the file."""
    records = {**kept(file), **{item["key"]: item for item in items}}
    lines = ",\n".join(json.dumps(item) for item in records.values())
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.part")
    partial.write_text(f'{{"format": {FORMAT}, "runs": [\n{lines}\n]}}\n')
    partial.replace(file)  # whole or not at all: an interruption loses nothing that was done


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


@cache
def commit() -> str | None:
    """The commit of the code, where it is a git checkout; marked when files differ from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[2]), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        return f"{head} with changes" if git("status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _finals(history: History) -> dict[str, float]:
    """How what was served did in the end on test data, and what else could have been."""
    named: dict[str, Mapping[str, Score]] = {"final": history.scores}
    named |= {f"final {name}": scores for name, scores in history.choices.items()}
    found: dict[str, float] = {}
    for name, scores in named.items():
        if "test" in scores:
            found |= {name: scores["test"].value, f"{name} loss": finite(scores["test"].loss)}
    return found


def _nameless(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "name"}


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
