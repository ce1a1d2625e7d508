# mypy: disable-error-code="import-not-found, misc"
"""Plato: its FedAvg server and clients in processes of their own, which talk through socket.io and files.

Tuned: a process trains its jobs itself, where Plato would start a new one for each; local training is that
of the plain loop, one thread a process; files lie in memory (`/dev/shm`); no tests, no checkpoint after
each round, no log. `--processes` is tried at as many as there are cores, where the next clients wait for all
of the last, and at one for each client of a round, Plato's default; the better one counts.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import benchmarks.peers.vision  # noqa: F401 - here, since clients' processes import this before Plato
from benchmarks.peers.common import (
    SEED,
    Workload,
    arguments,
    make_data,
    mean_loss,
    peak_memory,
    report,
    since_start,
)


def configuration(workload: Workload, rounds: int, processes: int, folder: str) -> dict[str, Any]:
    """Plato's configuration; JSON is YAML. The server is reached on this machine alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    some = {"max_concurrency": processes} if processes < workload.per_round else {}
    return {
        "general": {"base_path": folder},
        "clients": {
            "type": "simple",
            "total_clients": workload.clients,
            "per_round": workload.per_round,
            "do_test": False,
        },
        "server": {"address": "127.0.0.1", "port": port, "do_test": False, "random_seed": SEED},
        "data": {"datasource": "ours", "sampler": "all_inclusive"},
        "trainer": {"type": "basic", "rounds": rounds, "epochs": 1, "model_name": "ours", **some},
        "algorithm": {"type": "fedavg"},
    }


def main() -> None:
    name, workload, options = arguments(processes=1)
    torch.set_num_threads(1)
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="plato-", dir=memory if memory.is_dir() else None)
    settings = Path(folder) / "settings.yml"
    settings.write_text(json.dumps(configuration(workload, 1 + options.rounds, options.processes, folder)))
    os.environ |= {"config_file": str(settings), "BENCHMARK_WORKLOAD": name, "OMP_NUM_THREADS": "1"}
    sys.argv[1:] = ["--cpu", "--log", "error"]  # Plato reads these, in its clients' processes, too

    from plato.servers import fedavg

    from benchmarks.peers.plato_client import Trainer, make_client, model

    class Server(fedavg.Server):
        """Notes when rounds end, and reports at the end, since Plato then ends the process."""

        def training_will_start(self) -> None:
            super().training_will_start()
            self.startup, self.ends = since_start(), [time.perf_counter()]

        def clients_processed(self) -> None:
            self.ends.append(time.perf_counter())

        def save_to_checkpoint(self) -> None:
            pass

        def server_will_close(self) -> None:
            seconds = np.diff(self.ends).tolist()
            shutil.rmtree(folder)
            report(
                "plato",
                name,
                startup=self.startup,
                warmup=seconds[0],
                seconds=seconds[1:],
                memory=peak_memory(),  # while the clients' processes are there
                loss=mean_loss(self.trainer.model, *make_data(workload)),
                versions={"plato": version("plato-learn")},
                settings={"processes": options.processes, "threads": 1},
            )

    try:
        Server(model=model, trainer=Trainer).run(make_client())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
