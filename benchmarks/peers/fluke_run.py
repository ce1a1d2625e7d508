# mypy: disable-error-code="import-not-found, misc"
"""fluke: its `FedAVG`, clients one after the other in one process (on several GPUs it would run several).

Tuned: models stay in memory instead of on its disk cache, data are its `FastDataLoader`s (one gather an
epoch, then slices), no evaluation, the fused optimiser. `--threads` is tried at one and at all cores by the
runner, and `--keep` with clients that keep their model and optimiser from round to round, fluke's default,
and with such as do not, which comes to the same model; the best one counts.
"""

from __future__ import annotations

import os

# Before fluke is imported, which imports them: nothing is sent anywhere.
os.environ |= {"WANDB_MODE": "disabled", "CLEARML_OFFLINE_MODE": "1"}

import benchmarks.peers.vision  # noqa: F401, I001 - before fluke, which imports torchvision

import time
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import FastDataLoader
from fluke.utils import FederationObserver

from benchmarks.peers.common import (
    SEED,
    arguments,
    make_data,
    make_model,
    mean_loss,
    peak_memory,
    report,
    since_start,
)


class Split:
    """fluke asks a splitter for everybody's data; here they are split already."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def assign(self, clients: int, batch_size: int) -> Any:
        held = [
            FastDataLoader(x, y, num_labels=10, batch_size=batch_size, shuffle=True)
            for x, y in zip(self.x, self.y, strict=True)
        ]
        return (held, [None] * clients), None


class Timer(FederationObserver):
    """Notes when rounds end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def end_round(self, round: int) -> None:
        self.ends.append(time.perf_counter())


def main() -> None:
    name, workload, options = arguments(threads=1, keep=1)
    torch.set_num_threads(options.threads)
    environment = FlukeENV()
    environment.set_seed(SEED)
    environment.set_device("cpu")
    environment.set_inmemory(True)
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    x, y = make_data(workload)
    client = {
        "batch_size": workload.batch,
        "local_epochs": 1,
        "persistency": bool(options.keep),
        "loss": torch.nn.CrossEntropyLoss,
        "optimizer": {"name": "SGD", "lr": workload.lr, "fused": True},
        "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1},
    }
    settings = DDict(client=client, server={"weighted": True}, model=make_model(workload))
    federation = FedAVG(workload.clients, Split(x, y), settings)
    timer = Timer()
    federation.set_callbacks(timer)
    startup = since_start()
    timer.ends.append(time.perf_counter())
    federation.run(1 + options.rounds, workload.per_round / workload.clients)
    seconds = np.diff(timer.ends).tolist()
    report(
        "fluke",
        name,
        startup=startup,
        warmup=seconds[0],
        seconds=seconds[1:],
        loss=mean_loss(federation.server.model, x, y),
        memory=peak_memory(),
        versions={"fluke": version("fluke-fl")},
        settings={"threads": options.threads, "clients_keep_models": "yes" if options.keep else "no"},
    )


if __name__ == "__main__":
    main()
