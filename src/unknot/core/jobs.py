"""A job is what a client is asked to do; an update is what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from torch import Tensor

from unknot.core.data import FederatedData, Samples
from unknot.core.keys import Key
from unknot.core.lineage import Lineage, Unit
from unknot.core.recipe import Recipe
from unknot.core.weights import Weights


@dataclass(frozen=True, eq=False)
class Job:
    """Train `start` on the data of `unit` by `recipe`; every draw comes from `key`.

    `node` names the model that this is for, `version` the state of it that `start` was.
    """

    unit: Unit
    start: Weights
    key: Key
    recipe: Recipe
    node: str = "global"
    version: int = 0

    @property
    def client(self) -> int:
        return self.unit.client

    @cached_property
    def lineage(self) -> Lineage:
        """What the result of this job will carry."""
        return self.start.lineage | Lineage([self.unit])

    def done(self, vector: Tensor, samples: int, loss: float) -> Update:
        """The update that this job gives, with its lineage."""
        return Update(self, Weights(vector, self.start.layout, self.lineage), samples, loss)


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


@dataclass(frozen=True)
class Score:
    """How a model does on some samples."""

    accuracy: float
    loss: float
    samples: int


class Engine(Protocol):
    """Trains jobs. All that a method knows of the world outside the server.

    A job's result depends on that job alone, not on the company it is trained in.
    """

    @property
    def name(self) -> str: ...

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        """One update a job, in the order of the jobs."""
        ...

    def evaluate(self, weights: Weights, samples: Samples) -> Score: ...

    def describe(self) -> dict[str, object]:
        """Device, threads, precision, the path taken: recorded with every run."""
        ...
