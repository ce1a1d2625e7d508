"""The options by which a run is written down where people look already."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unknot.federation import History, SetAside
    from unknot.track import Tracker

CSVFile = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Also write a CSV table: a row for each round, for each request, and for the end.",
    ),
]
TensorBoardDir = Annotated[
    Path | None, typer.Option("--tensorboard", metavar="DIR", help="Also write it for TensorBoard.")
]
MLflowPlace = Annotated[
    str | None,
    typer.Option("--mlflow", metavar="URI|DIR", help="Also write it for MLflow: to a server, or a folder."),
]
WandBProject = Annotated[
    str | None,
    typer.Option(
        "--wandb",
        metavar="PROJECT",
        help="Also write it for Weights & Biases: offline, unless WANDB_MODE says otherwise.",
    ),
]


_SCHEME = re.compile(r"^(file://|sqlite:///)")  # how the address of a file begins


@dataclass(frozen=True)
class Tracked:
    """Where a run is to be written down."""

    csv: Path | None = None
    tensorboard: Path | None = None
    mlflow: str | None = None
    wandb: str | None = None

    def places(self) -> dict[str, Path]:
        """The files and folders that they write to, by option; a server is none."""
        found: dict[str, Path] = {}
        if self.csv is not None:
            found["--csv"] = self.csv
        if self.tensorboard is not None:
            found["--tensorboard"] = self.tensorboard
        if self.mlflow is not None and (address := _SCHEME.sub("", self.mlflow)) and "://" not in address:
            found["--mlflow"] = Path(address)
        if self.wandb is not None:
            found["--wandb"] = Path()
        return found

    def trackers(self, onto: bool = False) -> list[Tracker]:
        """One for each that was asked for; a package that is missing is named here.

        A run that is gone on with writes `onto` the table that there is; the others begin anew beside.
        """
        from unknot import track

        found: list[Tracker] = []
        if self.csv is not None:
            found.append(track.CSV(self.csv, onto))
        if self.tensorboard is not None:
            found.append(track.TensorBoard(self.tensorboard))
        if self.mlflow is not None:
            found.append(track.MLflow(self.mlflow))
        if self.wandb is not None:
            found.append(track.WandB(self.wandb))
        return found


def lost(history: History) -> list[SetAside]:
    """Of what was asked for by these options, what was not written down to the end."""
    from unknot import track

    return [aside for aside in history.set_aside_observers if aside.observer in track.__all__]
