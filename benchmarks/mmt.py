"""What influence trees cost: ``python -m benchmarks.mmt``.

16 clients, FedAvg, BMT and MMT side by side in one process, a round of each in turn; then each in
a process of its own for its memory. Prints one JSON object. Fails when MMT's median round takes more
than 1.3 × (depth + 1) times FedAvg's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from benchmarks import small
from benchmarks.peers.common import Workload, make_data, make_model, peak_memory
from benchmarks.peers.unknot_run import federated
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Federation, Method
from unknot.models import build
from unknot.topology import build as plant
from unknot.unlearn import BMT, MMT, RFS

WORKLOADS = {
    "mlp": Workload("mlp", clients=16, samples=200, per_round=16, batch=20, rounds=40),
    "lenet5": Workload("lenet5", clients=16, samples=200, per_round=16, batch=20, rounds=6),
}
SMALL = {"mlp": Workload("mlp", clients=16, samples=20, per_round=16, batch=20, rounds=2)}
METHODS: dict[str, Method] = {"fedavg": RFS(), "bmt": BMT(), "mmt": MMT()}
LIMIT = 1.3


def federation(workload: Workload, method: Method) -> Federation:
    data = federated(*make_data(workload))
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    model.load_state_dict(make_model(workload).state_dict())
    recipe = Recipe(SGD(workload.lr), epochs=1, batch_size=workload.batch)
    return Federation(StackedEngine(model), Weights.of(model), data, method, recipe, evaluate_every=0)


def side_by_side(workload: Workload) -> dict[str, float]:
    """Median seconds a round; the methods take turns, so that the machine's moods are shared."""
    feds = {name: federation(workload, method) for name, method in METHODS.items()}
    times: dict[str, list[float]] = {name: [] for name in feds}
    for number in range(workload.rounds + 2):
        for name, fed in feds.items():
            started = time.perf_counter()
            fed.run(1)
            if number >= 2:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def memory(name: str, model: str) -> dict[str, float]:
    fed = federation(WORKLOADS[model], METHODS[name])
    history = fed.run(3)
    return {"peak_rss_mb": round(peak_memory() * 1.048576, 1), "models_mb": history.costs.bytes_stored / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", nargs=2, metavar=("METHOD", "MODEL"))
    given = small.parse(parser, globals(), WORKLOADS=SMALL, LIMIT=1e9)
    if given.memory:
        print(json.dumps(memory(*given.memory)))
        return
    depth = plant("huffman", range(16)).depth
    result: dict[str, object] = {"clients": 16, "depth": depth, "limit": LIMIT * (depth + 1)}
    worst = 0.0
    for model, workload in WORKLOADS.items():
        seconds = side_by_side(workload)
        row: dict[str, object] = {}
        for name in METHODS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.mmt",
                "--memory",
                name,
                model,
                *["--small"] * given.small,
            ]
            taken = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            ratio = seconds[name] / seconds["fedavg"]
            row[name] = {"seconds_a_round": round(seconds[name], 4), "x_fedavg": round(ratio, 2), **taken}
        worst = max(worst, seconds["mmt"] / seconds["fedavg"])
        result[model] = row
    print(json.dumps(result, indent=1))
    if worst > LIMIT * (depth + 1):
        sys.exit(f"MMT took {worst:.2f} times as long as FedAvg; the limit is {LIMIT * (depth + 1):.1f}")


if __name__ == "__main__":
    main()
