"""A run for Weights & Biases, offline unless you say otherwise: ``pip install -e '.[wandb]'``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unknot.federation import Begun, Ended, Round, Served
from unknot.track import figures
from unknot.track.tracker import Tracker, folder, missing


class WandB(Tracker):
    """Writes curves, settings, requests and how it ended, as a run of a project.

    Nothing leaves the machine: the run lies in `directory` until ``wandb sync`` sends it, unless the variable
    WANDB_MODE says otherwise. A federation that goes on is another run, whose steps go on.
    """

    def __init__(self, project: str, directory: str | Path = ".") -> None:
        try:
            import wandb
        except ImportError:
            raise missing("Weights & Biases", "wandb", "wandb") from None
        self._wandb: Any = wandb
        self._project = project
        self.place = self._folder = folder(directory, "Weights & Biases")
        self._run: Any = None
        self._lies = ""
        self._requests: list[str] = []

    @property
    def where(self) -> str:
        return f"{self._lies} (send it: wandb sync {self._lies})"

    def opened(self, begun: Begun) -> None:
        self._run = self._wandb.init(
            project=self._project,
            name=figures.name_of(begun),
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            config={**begun.setup, "experiment": begun.experiment},
            reinit="create_new",  # nobody else's run of this process is ended by it
            settings=self._wandb.Settings(console="off", silent=True),
        )
        self._lies, self._requests = str(Path(self._run.dir).parent), []
        for lane in begun.members:
            self._run.define_metric(f"lane/{lane}/*", step_metric=f"lane/{lane}/round")

    def round(self, record: Round) -> None:
        counted = {f"lane/{record.lane}/round": record.round}
        self._run.log({**figures.served_in(record), **figures.lane_in(record), **counted}, step=self.step)

    def served(self, served: Served) -> None:
        self._requests.append(figures.request(self.begun, served))
        self._run.log({**figures.beside(served), "request": self._requests[-1]}, step=self.step)

    def closed(self, ended: Ended) -> None:
        found = {**figures.outcome(ended), **figures.words(ended), "requests": self._requests}
        self._run.summary.update(found)
        self._run.finish(exit_code=1 if ended.error else 0)
