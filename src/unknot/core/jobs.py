"""A job is what a client is asked to do; an update is what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.ensemble import Model
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.training import Recipe
from unknot.core.weights import Weights


@dataclass(frozen=True, eq=False)
class Job:
    """Train `start` on the data of `unit` by `recipe`; every draw comes from `key`.

    `node` names the model that this is for, `version` the state of it that `start` was. `batches`
    are the ids of the samples that each step reads, where a method draws them itself; by default
    the recipe goes through all of them. `others` are further clients whose data is read together
    with this one's, as central training does.
    """

    unit: Unit
    start: Weights
    key: Key
    recipe: Recipe
    node: str = "global"
    version: int = 0
    batches: tuple[NDArray[np.int64], ...] | None = None
    others: tuple[Unit, ...] = ()

    @property
    def client(self) -> int:
        return self.unit.client

    @property
    def clients(self) -> tuple[int, ...]:
        """Everybody whose data is read."""
        if not self.others:
            return (self.unit.client,)
        return (self.unit.client, *(unit.client for unit in self.others))

    @cached_property
    def lineage(self) -> Lineage:
        """What the result of this job will carry."""
        return self.start.lineage | Lineage([self.unit, *self.others])

    def shard(self, data: FederatedData) -> Shard:
        """The samples that this job may read; raises if they have been erased."""
        return data.pooled(self.clients) if self.others else data[self.client]

    def samples_read(self, data: FederatedData) -> int:
        """How many samples are read, each reading counted."""
        if self.batches is not None:
            return sum(len(batch) for batch in self.batches)
        if not self.others:
            return self.recipe.samples_seen(len(data[self.unit.client]))
        return self.recipe.samples_seen(sum(len(data[client]) for client in self.clients))

    def done(self, vector: Tensor, samples: int, loss: float) -> Update:
        """The update that this job gives, with its lineage."""
        return Update(self, self.trained(vector), samples, loss)

    def trained(self, vector: Tensor) -> Weights:
        """The weights that this job gives, with its lineage."""
        return Weights(vector, self.start.layout, self.lineage)


@dataclass(frozen=True, eq=False)
class Update:
    """A client's trained weights, how many samples stand behind them, the mean training loss."""

    job: Job
    weights: Weights
    samples: int
    loss: float

    @property
    def client(self) -> int:
        return self.job.client

    @property
    def lineage(self) -> Lineage:
        return self.weights.lineage

    @property
    def step(self) -> Weights:
        """What the client changed of the model that it was sent."""
        return self.weights - self.job.start


@dataclass(frozen=True)
class Score:
    """How a model does on some samples: the metrics by name, the main one first."""

    metrics: Mapping[str, float]
    loss: float
    samples: int

    @property
    def name(self) -> str:
        """Of the main one."""
        return next(iter(self.metrics))

    @property
    def value(self) -> float:
        """Of the main one."""
        return next(iter(self.metrics.values()))

    @property
    def accuracy(self) -> float:
        if "accuracy" not in self.metrics:
            raise AttributeError(
                f"accuracy is no metric of this run, which is measured by {', '.join(self.metrics)}: "
                "use .value, or name it in metrics"
            )
        return self.metrics["accuracy"]


class Engine(Protocol):
    """Trains jobs. All that a method knows of the world outside the server.

    A job's result depends on that job alone, not on the company it is trained in.
    """

    @property
    def name(self) -> str: ...

    def examine(self, samples: Samples) -> None:
        """Raise `ConfigError` if the model cannot be trained exactly on samples of these shapes.

        To be asked before anything is trained: a model with hidden state (running statistics, a counter,
        a generator of its own) ties one client's result to another's.
        """
        ...

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        """One update a job, in the order of the jobs."""
        ...

    def evaluate(self, model: Model, samples: Samples) -> Score: ...

    def predict(self, model: Model, samples: Samples) -> Tensor:
        """The probability of every class, ``[n, classes]``, or ``[n, t, classes]`` for text; of every label;
        or the values.

        In double precision, on the CPU: where a model is sure, the small ones still tell how sure.
        """
        ...

    def wipe(self) -> None:
        """Drop all that is held of any client (copies of samples, trained modules): results stay the same."""
        ...

    def describe(self) -> dict[str, object]:
        """Device, threads, precision, the path taken: recorded with every run."""
        ...


def evaluate_all(engine: Engine, models: Sequence[Model], samples: Samples) -> list[Score]:
    """How each of several models does: at once, where the engine has `evaluate_all`."""
    at_once: Callable[[Sequence[Model], Samples], list[Score]] | None = getattr(engine, "evaluate_all", None)
    return at_once(models, samples) if at_once else [engine.evaluate(model, samples) for model in models]


def predict_all(engine: Engine, models: Sequence[Model], samples: Samples) -> list[Tensor]:
    """What each of several models says: at once, where the engine has `predict_all`."""
    at_once: Callable[[Sequence[Model], Samples], list[Tensor]] | None = getattr(engine, "predict_all", None)
    return at_once(models, samples) if at_once else [engine.predict(model, samples) for model in models]
