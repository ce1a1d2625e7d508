"""A run as a table: a line an event, for spreadsheets and pandas."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.federation import Begun, Costs, Ended, Round, Served
from unknot.federation.scores import SPLITS
from unknot.track import figures
from unknot.track.tracker import Tracker

FIRST = ("event", "step", "lane", "round", "version", figures.SECONDS)
ROUND = ("clients", "used", "set_aside", "staleness", "train_loss")


class CSV(Tracker):
    """Writes a line for each round, each request (with the model right after it) and the end.

    What does not belong to an event is left empty. Every line is there as soon as it has happened. A table
    that is there is replaced, or, with `onto`, gone on with: then it must have the same columns.
    """

    def __init__(self, file: str | Path, onto: bool = False) -> None:
        self.place = self._file = Path(file)
        self._onto = onto
        self._columns: tuple[str, ...] = ()
        if self._file.is_dir() or not self._file.parent.is_dir():
            why = f"there is no folder {self._file.parent}; make it, or name another"
            why = "that is a folder; name a file" if self._file.is_dir() else why
            raise ConfigError(f"cannot write the table {self._file}: {why}")

    @property
    def where(self) -> str:
        return str(self._file)

    def opened(self, begun: Begun) -> None:
        if self._columns:  # a federation goes on, and so does its table
            return
        measured = [f"{split}/{name}" for split in SPLITS for name in dict.fromkeys((*begun.metrics, "loss"))]
        costs = [f"costs/{name}" for name in Costs.__dataclass_fields__]
        sides = [f"{side}/{name}" for side in ("own", "before") for name in measured]
        self._columns = (*FIRST, *measured, *ROUND, *sides, *costs, "request")
        if self._onto and self._file.exists() and self._file.stat().st_size:
            self._join()
            return
        with self._file.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerow(self._columns)

    def _join(self) -> None:
        """Go on with a table that is there, after its last line, whole or not."""
        with self._file.open(newline="", encoding="utf-8", errors="replace") as there:
            if tuple(next(csv.reader(there), ())) != self._columns:
                raise ConfigError(f"{self._file} is another table, with other columns: name another file")
            there.seek(0)
            *_, last = there
        if not last.endswith("\n"):
            with self._file.open("a", newline="", encoding="utf-8") as out:
                out.write("\r\n")

    def round(self, record: Round) -> None:
        prefix = f"lane/{record.lane}/"
        mine = {name.removeprefix(prefix): value for name, value in figures.lane_in(record).items()}
        self._write(
            event="round",
            lane=record.lane,
            round=record.round,
            version=record.version,
            **{name if name in ROUND else f"own/{name}": value for name, value in mine.items()},
            **figures.served_in(record),
        )

    def served(self, served: Served) -> None:
        self._write(
            event=served.kind,
            lane=" + ".join(served.lanes),
            round=served.round,
            clients=len(served.clients),
            request=self.begun.told(served),
            **{figures.SECONDS: served.time},
            **figures.around(served),
        )

    def closed(self, ended: Ended) -> None:
        found = {name.removeprefix("final/"): value for name, value in figures.outcome(ended).items()}
        rest = {name: value for name, value in found.items() if name in self._columns}
        self._write(event="end", request=ended.error, **rest)

    def _write(self, **cells: Any) -> None:
        with self._file.open("a", newline="", encoding="utf-8") as out:
            csv.DictWriter(out, self._columns).writerow({"step": self.step, **cells})
