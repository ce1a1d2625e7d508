# mypy: disable-error-code="import-not-found, misc, assignment"
"""Apple's pfl-research: `FederatedAveraging` on its `SimulatedBackend`.

Tuned: data sets are tensors built once, no evaluation and no metrics during the rounds, the fused
local optimiser, one thread a process. With `--processes` above one it runs on its own
multi-process support (each process trains its part of the cohort, then all-reduce); the runner
tries one process and as many as there are cores, and the better one counts. pfl reads a user's data
in the order stored; as everybody else's, it is shuffled here for each epoch.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers.common import (
    SEED,
    Workload,
    arguments,
    make_data,
    make_model,
    mean_loss,
    peak_memory,
    report,
    since_start,
)


def join_workers(rank: int, processes: int, meeting: str) -> None:
    """Let pfl's workers find one another through a file and talk on the loopback interface alone.

    pfl itself would open a port on all interfaces for the rendezvous; nothing else changes.
    """
    start = torch.distributed.init_process_group
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {"PFL_WORKER_RANK": str(rank), "PFL_WORKER_ADDRESSES": ",".join(["loopback"] * processes)}

    def by_file(backend: str, **_: Any) -> None:
        start(backend=backend, init_method=f"file://{meeting}", rank=rank, world_size=processes)

    torch.distributed.init_process_group = by_file


def run(name: str, workload: Workload, rounds: int, processes: int, rank: int) -> None:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Model(nn.Module):
        """pfl asks for `loss` and `metrics`."""

        def __init__(self) -> None:
            super().__init__()
            self.net = make_model(workload)

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self.net(x), y)

        def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
            return {}

    class Timer(TrainingProcessCallback):
        def __init__(self) -> None:
            self.ends = [time.perf_counter()]

        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Any]:
            self.ends.append(time.perf_counter())
            return False, Metrics()

    np.random.seed(SEED)  # all workers draw the same cohorts
    x, y = make_data(workload)

    def user(client: int) -> Any:
        order = torch.randperm(workload.samples)
        return Dataset((x[client][order], y[client][order]), user_id=str(client))

    users = FederatedDataset(user, get_user_sampler("minimize_reuse", list(range(workload.clients))))
    model = Model()
    pfl_model = PyTorchModel(
        model=model,
        local_optimizer_create=functools.partial(torch.optim.SGD, fused=True),
        central_optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
    )
    backend = SimulatedBackend(training_data=users, val_data=None, postprocessors=[WeightByDatapoints()])
    parameters = NNAlgorithmParams(
        central_num_iterations=1 + rounds,
        evaluation_frequency=10**9,  # round 0 only, which is the warm-up
        train_cohort_size=workload.per_round,
        val_cohort_size=None,
    )
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=workload.lr, local_batch_size=workload.batch
    )
    startup = since_start()
    timer = Timer()
    FederatedAveraging().run(
        algorithm_params=parameters,
        backend=backend,
        model=pfl_model,
        model_train_params=local,
        callbacks=[timer],
        send_metrics_to_platform=False,
    )
    memory = peak_memory()  # while the other workers are there
    seconds = np.diff(timer.ends).tolist()
    if rank == 0:
        report(
            "pfl",
            name,
            startup=startup,
            warmup=seconds[0],
            seconds=seconds[1:],
            loss=mean_loss(model.net, x, y),
            memory=memory,
            versions={"pfl": version("pfl")},
            settings={"processes": processes, "threads": torch.get_num_threads()},
        )


def main() -> None:
    name, workload, options = arguments(processes=1, threads=1, rank=0)
    torch.set_num_threads(options.threads)
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    if options.processes == 1:
        run(name, workload, options.rounds, 1, 0)
    elif meeting := os.environ.get("BENCHMARK_MEETING"):
        join_workers(options.rank, options.processes, meeting)
        run(name, workload, options.rounds, options.processes, options.rank)
        torch.distributed.destroy_process_group()
    else:
        # This process is the first worker, and the parent of the others.
        with tempfile.TemporaryDirectory() as folder:
            os.environ["BENCHMARK_MEETING"] = str(Path(folder) / "meeting")
            command = [sys.executable, "-m", "benchmarks.peers.pfl_run", *sys.argv[1:], "--rank"]
            others = [subprocess.Popen([*command, str(rank)]) for rank in range(1, options.processes)]
            try:
                join_workers(0, options.processes, os.environ["BENCHMARK_MEETING"])
                run(name, workload, options.rounds, options.processes, 0)
                torch.distributed.destroy_process_group()
                for other in others:
                    other.wait(timeout=60)
            finally:
                for other in others:
                    if other.poll() is None:
                        other.kill()
                        other.wait()


if __name__ == "__main__":
    main()
