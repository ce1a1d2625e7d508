# mypy: disable-error-code="import-not-found, misc"
"""What Plato's processes share: a module of its own, since they are spawned and import it by name.

Plato reads its configuration when it is imported: `plato_run` writes it before it imports this.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any

import torch
from plato.clients import simple
from plato.datasources import base
from plato.trainers import basic

from benchmarks.peers.common import WORKLOADS, make_data, make_model, train_client

NAME = os.environ["BENCHMARK_WORKLOAD"]
WORKLOAD = WORKLOADS[NAME]


@lru_cache(maxsize=1)
def held() -> tuple[torch.Tensor, torch.Tensor]:
    """All data, made once in each process."""
    return make_data(WORKLOAD)


def model() -> torch.nn.Module:
    return make_model(WORKLOAD)


class Source(base.DataSource):
    """Plato asks for a client's number of samples alone: the trainer reads them itself."""

    def num_train_examples(self) -> int:
        return WORKLOAD.samples

    def get_train_set(self) -> range:
        return range(WORKLOAD.samples)


class Trainer(basic.Trainer):
    """Trains as the plain loop does, in the client's own process: Plato would start another for each job."""

    def train(self, trainset: Any, sampler: Any, **_: Any) -> float:
        started = time.perf_counter()
        x, y = held()
        train_client(self.model, x[self.client_id - 1], y[self.client_id - 1], WORKLOAD)
        return time.perf_counter() - started


class Client(simple.Client):
    def _load_data(self) -> None:
        torch.set_num_threads(1)
        super()._load_data()

    def _clear_checkpoint_files(self) -> None:
        """The server removes the folder, before the clients hear that it is over."""


def make_client() -> Any:
    return Client(model=model, datasource=Source, trainer=Trainer)
