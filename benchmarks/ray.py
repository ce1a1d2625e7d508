"""What Ray costs on one machine: ``python -m benchmarks.ray``.

Two federations with the same seed, one on the stacked engine in this process, one on Ray with as many
workers of one thread as the other has threads, run their rounds in turn, so that both meet the same load;
the ratio of each pair counts, and their models must be the same bits. Then a client is erased from both,
and another one: what such a round takes, and the one after it. ``--workers 16 --clients 160 --among 1000``
for a machine with 16 cores; ``--gpu`` for one worker with a GPU against the same GPU in process. Prints one
JSON object; ``--out`` adds it to a record.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import unknot
from benchmarks import small
from benchmarks.peers.common import SEED, WORKLOADS, Workload, make_data, make_model
from benchmarks.peers.unknot_run import federated
from unknot.core.data import FederatedData
from unknot.core.jobs import Engine
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import make_engine
from unknot.engine.ray import cluster
from unknot.federation import Federation, Synchronous
from unknot.models import build
from unknot.unlearn import RFS

MOST = 1.15
"""A round over two workers is to take at most so many times as long as in process."""
NAMES = {"lenet5": "LeNet-5", "mlp": "MLP 784-80-10"}


def federation(workload: Workload, data: FederatedData, name: str, **options: Any) -> Federation:
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    model.load_state_dict(make_model(workload).state_dict())
    engine: Engine = make_engine(name, model, **options)
    return Federation(
        engine,
        Weights.of(model).to(device=options["device"]),
        data,
        RFS(),
        Recipe(SGD(workload.lr), epochs=1, batch_size=workload.batch),
        pace=Synchronous(workload.per_round),
        seed=SEED,
        evaluate_every=0,
    )


def seconds(do: Callable[[], object], device: str) -> float:
    started = time.perf_counter()
    do()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(workload: Workload, workers: int, rounds: int, device: str) -> dict[str, Any]:
    data = federated(*make_data(workload))
    gpu = device == "cuda"
    here = federation(
        workload, data.fork(), "stacked", device=device, **({} if gpu else {"threads": workers})
    )
    there = federation(workload, data.fork(), "ray", device=device, workers=workers)
    start = seconds(lambda: there.engine.examine(data.train), device)
    done = 0

    def both(**requests: Any) -> tuple[float, float]:
        """A round in process, and one over the workers."""
        nonlocal done
        done += 1
        own, ray = (seconds(lambda fed=fed: fed.run(1, **requests), device) for fed in (here, there))
        assert isinstance(there.model, Weights)
        assert there.model.equal(here.model), "Ray's model has other bits than the one in process"
        return own, ray

    def erased(client: int) -> dict[str, list[float]]:
        served, after = both(requests=unknot.erase(client, round=done + 1)), both()
        return {name: _rounded(pair) for name, pair in (("served", served), ("after", after))}

    first = both()
    pairs = [both() for _ in range(rounds)]
    erasures = [erased(client) for client in range(2)]
    told = there.engine.describe()
    ratios = sorted(ray / own for own, ray in pairs)
    return {
        "model": workload.model,
        "a_round": workload.per_round,
        "clients": workload.clients,
        "workers": told["workers"],
        "device": device,
        "chip": cluster.about_here(torch.device(device))["chip"],
        "in_process_seconds": round(statistics.median(own for own, _ in pairs), 4),
        "ray_seconds": round(statistics.median(ray for _, ray in pairs), 4),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": _rounded(statistics.quantiles(ratios, n=4)[::2]),
        "rounds": rounds,
        "same_bits": True,
        "workers_started_seconds": round(start, 2),
        "first_round_seconds": _rounded(first),
        "erasures_seconds": erasures,
        "path": told["path"],
        "lost": told["lost"],
    }


def _rounded(values: Any) -> list[float]:
    return [round(value, 3) for value in values]


def rows(record: dict[str, Any]) -> list[str]:
    """The record as the lines of a table: a round in process and over workers; one after an erasure."""
    lines = []
    for found in record.values():
        many = f"{found['workers']} worker{'s' * (found['workers'] > 1)}"
        what = f"{NAMES[found['model']]}, {found['a_round']:,} of {found['clients']:,} clients"
        where = f"{many} with a GPU" if found["device"] == "cuda" else many
        after = found["erasures_seconds"][-1]["after"][1]
        cells = (f"{found['in_process_seconds']:.3f}", f"{found['ray_seconds']:.3f}", f"{found['ratio']:.2f}")
        lines.append(f"| {what} | {where} | {' | '.join(cells)} | {after:.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["W1"], help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--workers", type=int, help="of one thread each; in process: threads; left out: 2")
    parser.add_argument("--clients", type=int, help="asked in a round, where not the workload's")
    parser.add_argument("--among", type=int, help="clients in all, where not the workload's")
    parser.add_argument("--gpu", action="store_true", help="one worker with a GPU, and the GPU in process")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, help="the record to add to")
    asked = small.parse(parser, globals(), workloads=["W2"], rounds=2)
    if unknown := set(asked.workloads) - set(WORKLOADS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: there are {', '.join(WORKLOADS)}")
    if asked.gpu and not torch.cuda.is_available():
        parser.error("there is no GPU here")
    if asked.workers is not None and asked.workers < 1:
        parser.error("--workers must be at least 1")
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "ray": version("ray"),
    }
    device, workers = ("cuda", asked.workers or 1) if asked.gpu else ("cpu", asked.workers or 2)
    record = json.loads(asked.out.read_text()) if asked.out and asked.out.exists() else {}
    for name in asked.workloads:
        own = WORKLOADS[name]
        per_round = asked.clients or own.per_round
        workload = replace(own, per_round=per_round, clients=asked.among or max(per_round, own.clients))
        found = measure(workload, workers, asked.rounds, device) | machine
        print(json.dumps(found, indent=1))
        record[f"{name}, {per_round} clients, {workers} × {device}"] = found
        if asked.out:
            asked.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
