"""A run for MLflow, in a folder or on a server: ``pip install -e '.[mlflow]'``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError
from unknot.federation import Begun, Ended, Round, Served
from unknot.track import figures
from unknot.track.tracker import Tracker, folder, missing

BATCH = 100  # a server takes no more settings at once
LONGEST = 500  # letters of a setting, for servers of all ages


class MLflow(Tracker):
    """Writes curves, settings, requests (as tags) and how it ended, as a run of an MLflow experiment.

    `uri` is that of a server or a database (``http://…``, ``sqlite:///…``), or a folder: then there is a
    small database in it. Times are simulated, counted from when the run began. A federation that goes on is
    another run, whose steps go on.
    """

    def __init__(self, uri: str | Path, experiment: str = "unknot") -> None:
        try:
            import mlflow
        except ImportError:
            raise missing("MLflow", "mlflow-skinny", "mlflow") from None
        self._entities: Any = mlflow.entities
        self._uri, artifacts = str(uri), None
        address = self._uri.removeprefix("sqlite:///").removeprefix("file://")
        self.place = Path(address) if "://" not in address else None
        if "://" not in self._uri:
            place = folder(uri, "MLflow").absolute()
            self._uri, artifacts = f"sqlite:///{place / 'mlflow.db'}", (place / "artifacts").as_uri()
        try:
            self._client: Any = mlflow.MlflowClient(tracking_uri=self._uri)
            found = self._client.get_experiment_by_name(experiment)
            self._experiment = (
                found.experiment_id if found else self._client.create_experiment(experiment, artifacts)
            )
        except ImportError as error:
            raise missing("MLflow in a folder", error.name or "sqlalchemy", "mlflow") from None
        except Exception as error:  # whatever a server or a database may say
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(f"MLflow: cannot write to {self._uri}: {said}") from None
        self._run = ""
        self._requests = 0
        self._began = 0.0

    @property
    def where(self) -> str:
        return f"run {self._run} at {self._uri} (look at it: mlflow ui --backend-store-uri {self._uri})"

    def opened(self, begun: Begun) -> None:
        self._began = time.time()
        run = self._client.create_run(self._experiment, run_name=figures.name_of(begun))
        self._run, self._requests = run.info.run_id, 0
        made = figures.settings(begun)
        found = [self._entities.Param(name, str(value)[:LONGEST]) for name, value in made.items()]
        for start in range(0, len(found), BATCH):
            self._client.log_batch(self._run, params=found[start : start + BATCH])
        for name, table in {"setup": begun.setup, "experiment": begun.experiment}.items():
            self._client.log_dict(self._run, table, f"{name}.json")

    def round(self, record: Round) -> None:
        served = self._metrics(figures.served_in(record), self.step, record.time)
        self._client.log_batch(
            self._run, metrics=served + self._metrics(figures.lane_in(record), record.round, record.time)
        )

    def served(self, served: Served) -> None:
        self._requests += 1
        self._client.set_tag(self._run, f"request.{self._requests}", figures.request(self.begun, served))
        found = self._metrics(figures.beside(served), self.step, served.time)
        self._client.log_batch(self._run, metrics=found)

    def closed(self, ended: Ended) -> None:
        found = self._metrics(figures.outcome(ended), self.step, ended.time)
        tags = [self._entities.RunTag(name, text) for name, text in figures.words(ended).items()]
        self._client.log_batch(self._run, metrics=found, tags=tags)
        failed = "KILLED" if ended.error.startswith("KeyboardInterrupt") else "FAILED"
        self._client.set_terminated(self._run, failed if ended.error else "FINISHED")

    def _metrics(self, found: figures.Figures, step: int, seconds: float) -> list[Any]:
        at = round(1000 * (self._began + seconds))
        return [self._entities.Metric(name, value, at, step) for name, value in found.items()]
