"""What Ray costs on one machine: ``python -m benchmarks.ray``, on a machine with 16 cores ``--workers 16``.

Two federations with the same seed, one on the stacked engine in this process, one on Ray with as many
workers of one thread as the other has threads, run their rounds in turn, so that both meet the same load;
the ratio of each pair counts, and their models must be the same bits. The time to put the data into the
workers, and that of an erasure's wiping, are apart. Writes JSON to ``--out``, and prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.common import SEED, WORKLOADS, Workload, make_data, make_model
from benchmarks.peers.unknot_run import federated
from unknot.core.data import FederatedData
from unknot.core.jobs import Engine
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import make_engine
from unknot.federation import Federation, Synchronous
from unknot.models import build
from unknot.unlearn import RFS

MOST = 1.15
"""A round over two workers is to take at most so many times as long as in process."""


def federation(workload: Workload, data: FederatedData, name: str, **options: Any) -> Federation:
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    model.load_state_dict(make_model(workload).state_dict())
    engine: Engine = make_engine(name, model, **options)
    return Federation(
        engine,
        Weights.of(model),
        data,
        RFS(),
        Recipe(SGD(workload.lr), epochs=1, batch_size=workload.batch),
        pace=Synchronous(workload.per_round),
        seed=SEED,
        evaluate_every=0,
    )


def seconds(do: Any) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def measure(workload: Workload, workers: int, rounds: int) -> dict[str, Any]:
    data = federated(*make_data(workload))
    here = federation(workload, data.fork(), "stacked", threads=workers)
    there = federation(workload, data.fork(), "ray", workers=workers)
    start = seconds(lambda: there.engine.examine(data.train))
    first = {"in process": seconds(lambda: here.run(rounds=1)), "ray": seconds(lambda: there.run(rounds=1))}
    pairs = [
        (seconds(lambda: here.run(rounds=1)), seconds(lambda: there.run(rounds=1))) for _ in range(rounds)
    ]
    for fed in (here, there):
        assert isinstance(fed.model, Weights)
    assert there.model.equal(here.model), "Ray's model has other bits than the one in process"
    wipe = seconds(there.engine.wipe)
    again = seconds(lambda: there.run(rounds=1))
    said = there.engine.describe()
    ratios = sorted(ray / own for own, ray in pairs)
    return {
        "workers": said["workers"],
        "in_process_seconds": round(statistics.median(own for own, _ in pairs), 4),
        "ray_seconds": round(statistics.median(ray for _, ray in pairs), 4),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(part, 3) for part in statistics.quantiles(ratios, n=4)[::2]],
        "rounds": rounds,
        "workers_started_seconds": round(start, 2),
        "first_round_seconds": {name: round(took, 2) for name, took in first.items()},
        "wipe_seconds": round(wipe, 3),
        "round_after_wipe_seconds": round(again, 2),
        "path": said["path"],
        "lost": said["lost"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["W1"], help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--workers", type=int, default=2, help="of one thread each; in process: threads")
    parser.add_argument(
        "--clients", type=int, default=None, help="asked in a round, where not the workload's"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    record: dict[str, Any] = {
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "ray": version("ray"),
        "at_most": MOST,
        "measured": {},
    }
    for name in asked.workloads:
        workload = WORKLOADS[name]
        if asked.clients:
            workload = replace(
                workload, per_round=asked.clients, clients=max(asked.clients, workload.clients)
            )
        record["measured"][name] = measure(workload, asked.workers, asked.rounds)
    text = json.dumps(record, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
