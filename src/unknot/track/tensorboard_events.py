"""A run for TensorBoard: ``pip install -e '.[tensorboard]'``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.federation import Begun, Ended, Round, Served
from unknot.track import figures
from unknot.track.tracker import Tracker, folder, missing


class TensorBoard(Tracker):
    """Writes curves, requests as text, the settings and how it ended into a folder of its own.

    Curves of the served model go over the rounds of all lanes, those of a lane over its own. The time of a
    point is simulated: choose *relative* for the axis below, and the curves go over simulated time.
    """

    def __init__(self, directory: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing("TensorBoard", "tensorboard", "tensorboard") from None
        self._writer_of: Any = SummaryWriter
        self.place = self._folder = folder(directory, "TensorBoard")
        if next(self._folder.glob("events.out.tfevents.*"), None):
            raise ConfigError(
                f"TensorBoard: {self._folder} holds a run already, and their curves would be drawn as one: "
                "name another folder"
            )
        self._writer: Any = None
        self._settings: dict[str, figures.Setting] = {}
        self._began = 0.0

    @property
    def where(self) -> str:
        return f"{self._folder} (look at it: tensorboard --logdir {self._folder})"

    def opened(self, begun: Begun) -> None:
        self._began = self._began or time.time()
        self._writer = self._writer_of(str(self._folder))
        self._settings = figures.settings(begun)
        if begun.experiment:
            self._text("experiment", _code(begun.experiment), self._began)
        self._text("setup", _code(begun.setup), self._began)

    def round(self, record: Round) -> None:
        at = self._began + record.time
        self._scalars(figures.served_in(record), self.step, at)
        self._scalars(figures.lane_in(record), record.round, at)
        self._writer.flush()

    def served(self, served: Served) -> None:
        at = self._began + served.time
        self._text("requests", figures.request(self.begun, served), at)
        self._scalars(figures.beside(served), self.step, at)
        self._writer.flush()

    def closed(self, ended: Ended) -> None:
        self._text("end", "\n\n".join(f"**{name}**: {text}" for name, text in figures.words(ended).items()))
        # The folder itself, not one below it: else TensorBoard shows two runs.
        self._writer.add_hparams(self._settings, figures.outcome(ended), run_name=".", global_step=self.step)
        self._writer.close()

    def _scalars(self, found: figures.Figures, step: int, at: float) -> None:
        for name, value in found.items():
            self._writer.add_scalar(name, value, step, walltime=at)

    def _text(self, name: str, text: str, at: float | None = None) -> None:
        self._writer.add_text(name, text, self.step, walltime=at)


def _code(table: Mapping[str, Any]) -> str:
    return "".join(f"    {line}\n" for line in json.dumps(table, indent=2, default=str).splitlines())
