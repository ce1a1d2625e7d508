# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""Flower's simulation: `FedAvg` in a ServerApp, ClientApps on its Ray backend.

Tuned: one CPU and one thread a client, so that as many clients train at once as there are cores; each
worker builds model and data once; local training is that of the plain loop; no evaluation rounds; the
server looks for replies every 10 ms instead of every 100 ms.
"""

from __future__ import annotations

import os

# Before Flower is imported. Nothing is sent anywhere, and Ray listens on 127.0.0.1 alone, as it does
# by default on systems where it makes no clusters, not on all interfaces.
os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.common import (
    arguments,
    make_data,
    make_model,
    mean_loss,
    peak_memory,
    report,
    since_start,
)
from benchmarks.peers.flower_client import app as client_app


class TimedFedAvg(FedAvg):
    """FedAvg that notes when each round begins."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.times: list[float] = []

    def configure_train(self, *arguments: Any) -> Iterable[Any]:
        self.times.append(time.perf_counter())
        messages: Iterable[Any] = super().configure_train(*arguments)
        return messages


def main() -> None:
    cores = os.cpu_count() or 1
    name, workload, options = arguments()
    result: dict[str, Any] = {}
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        grid.pull_interval = 0.01
        model = make_model(workload)
        strategy = TimedFedAvg(
            fraction_train=workload.per_round / workload.clients,
            fraction_evaluate=0.0,
            min_train_nodes=workload.per_round,
            min_available_nodes=workload.clients,
        )
        result["startup"] = since_start()
        trained = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(model.state_dict()),
            num_rounds=1 + options.rounds,
            train_config=ConfigRecord({"workload": name}),
        )
        result["times"] = [*strategy.times, time.perf_counter()]
        result["memory"] = peak_memory()  # while the workers are there
        model.load_state_dict(trained.arrays.to_torch_state_dict())
        result["loss"] = mean_loss(model, *make_data(workload))

    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # Ray would leave its logs behind
        init = {"num_cpus": cores, "logging_level": "error", "_temp_dir": folder}
        run_simulation(
            server_app,
            client_app,
            num_supernodes=workload.clients,
            backend_config={"init_args": init, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
    seconds = np.diff(result["times"]).tolist()
    report(
        "flower",
        name,
        startup=result["startup"],
        # The server starts before Ray does: the first round waits for the workers and their data.
        warmup=seconds[0],
        seconds=seconds[1:],
        loss=result["loss"],
        memory=result["memory"],
        versions={"flwr": version("flwr"), "ray": version("ray")},
        settings={"threads": 1, "clients_at_once": cores},
    )


if __name__ == "__main__":
    main()
