"""How far a GPU is used: ``python -m benchmarks.gpu``.

One epoch of 600 samples (batches of 32, SGD, float32) for cohorts of the papers' models: the stacked engine
as it comes beside the plain loop on the same GPU, where its time goes, and the floor of operations and
bytes. Then what MMT's influence trees cost, as multiples of FedAvg. ``--large`` adds 100 rounds among 10,000
clients, and how much of them is not training; ``--vgg`` VGG-16, of which one fills the GPU. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import unknot
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job, Update
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.federation import Federation, Synchronous
from unknot.models import build
from unknot.unlearn import MMT, RFS

SAMPLES, BATCH = 600, 32
RECIPE = Recipe(SGD(0.01), batch_size=BATCH)
GOALS = {("mlp", 100): 4.0, ("mlp", 1000): 12.0, ("lenet5", 100): 25.0, ("lenet5", 1000): 150.0}
MMT_GOAL = 1.5
NAMES = {"mlp": "MLP 784-80-10", "lenet5": "LeNet-5"}
# An H200 by its data sheet: operations in float32 and bytes, a second.
OPERATIONS, BYTES = 67e12, 4.8e12


def make_model(name: str) -> nn.Module:
    torch.manual_seed(0)
    return build(name, (1, 28, 28), classes=10, **({"hidden": (80,)} if name == "mlp" else {}))


def make_data(clients: int, samples: int = SAMPLES, shape: tuple[int, ...] = (1, 28, 28)) -> FederatedData:
    """Drawn pixels, so that nothing need be carried along; nobody looks at what is learned."""
    count, drawn = clients * samples, np.random.default_rng(0)
    few = torch.from_numpy(drawn.random((min(count, 60_000), *shape), dtype=np.float32))
    x = few.repeat(-(-count // len(few)), *(1 for _ in shape))[:count]
    y = torch.from_numpy(drawn.integers(0, 10, count))
    shards = {c: Shard.of(np.arange(c * samples, (c + 1) * samples)) for c in range(clients)}
    held_out = Samples(x[:100], y[:100], 10)
    return FederatedData(Samples(x, y, 10), shards, held_out, held_out)


def make_jobs(model: nn.Module, clients: int, device: str, round: int) -> list[Job]:
    start = Weights.of(model).to(device=device)
    root = Key.root(0).child("round", round)
    return [Job(Unit(c), start, root.child("client", c), RECIPE) for c in range(clients)]


def timed(work: Callable[[], object], repeats: int, device: str) -> list[float]:
    seconds = []
    for _ in range(repeats):
        _wait(device)
        started = time.perf_counter()
        work()
        _wait(device)
        seconds.append(time.perf_counter() - started)
    return seconds


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def busy(work: Callable[[], object]) -> dict[str, float]:
    """Where the GPU's time goes in one run, in milliseconds: kernels by name, copies."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
        torch.cuda.synchronize()
    found = {e.key: e.self_device_time_total / 1e3 for e in profile.key_averages()}
    kernels = sum(found.values())
    largest = sorted(found.items(), key=lambda item: -item[1])[:8]
    return {"busy": round(kernels, 2), **{name[:60]: round(ms, 2) for name, ms in largest}}


def cohort(name: str, clients: int, device: str, repeats: int, profiled: bool) -> dict[str, Any]:
    model, data = make_model(name), make_data(clients)
    engine = StackedEngine(model, device=device)
    rounds = iter([make_jobs(model, clients, device, number) for number in range(repeats + 4)])

    def work() -> object:
        return engine.train(next(rounds), data)

    first = timed(work, 1, device)[0]
    timed(work, 2, device)
    seconds = timed(work, repeats, device)
    result: dict[str, Any] = {
        "ms": round(1e3 * statistics.median(seconds), 2),
        "ms_least": round(1e3 * min(seconds), 2),
        "ms_first": round(1e3 * first, 1),
        "goal": GOALS.get((name, clients)),
        "described": engine.describe(),
        **floor(model, clients),
    }
    if device != "cpu":
        result["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        if profiled:
            result["gpu_ms"] = busy(work)
    loop = LoopEngine(model, device=device)
    few = make_jobs(model, clients, device, 0)[:3]
    timed(lambda: loop.train(few, data), 1, device)
    alone = statistics.median(timed(lambda: loop.train(few, data), 2, device)) / len(few)
    result["loop_ms"] = round(1e3 * alone * clients, 1)
    return result


def floor(model: nn.Module, clients: int) -> dict[str, float]:
    """What no code can beat: operations at the GPU's peak; weights and batches through its memory."""
    sizes: list[int] = []

    def count(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            sizes.append(output[0].numel() * module.weight[0].numel())
        elif isinstance(module, nn.Linear):
            sizes.append(module.weight.numel())

    hooks = [m.register_forward_hook(count) for m in model.modules()]
    model(torch.zeros(1, 1, 28, 28))
    for hook in hooks:
        hook.remove()
    steps = -(-SAMPLES // BATCH)
    # Forward, backward for the weights, backward for the inputs: not of the first layer.
    operations = 2 * (3 * sum(sizes) - sizes[0]) * SAMPLES * clients
    parameters = sum(p.numel() for p in model.parameters())
    moved = 4 * clients * (3 * parameters * steps + 2 * 784 * SAMPLES)
    return {
        "floor_operations_ms": round(1e3 * operations / OPERATIONS, 2),
        "floor_bytes_ms": round(1e3 * moved / BYTES, 2),
    }


def trees(name: str, device: str, rounds: int) -> dict[str, float]:
    """Seconds a round of MMT over those of FedAvg, 16 clients; the two take turns."""
    model, data = make_model(name), make_data(16)
    feds = {
        method.name: Federation(
            StackedEngine(model, device=device),
            Weights.of(model).to(device=device),
            data.fork(),
            method,
            RECIPE,
            evaluate_every=0,
        )
        for method in (RFS(), MMT())
    }
    seconds: dict[str, list[float]] = {method: [] for method in feds}
    for number in range(rounds + 3):
        for method, fed in feds.items():
            taken = timed(lambda fed=fed: fed.run(1), 1, device)[0]
            if number >= 3:
                seconds[method].append(taken)
    fedavg, mmt = (statistics.median(values) for values in seconds.values())
    return {
        "fedavg_ms": round(1e3 * fedavg, 2),
        "mmt_ms": round(1e3 * mmt, 2),
        "times": round(mmt / fedavg, 2),
    }


class Watched(StackedEngine):
    """Counts the seconds that are spent in training."""

    seconds = 0.0

    def train(self, jobs: Sequence[Job], data: FederatedData) -> list[Update]:
        started = time.perf_counter()
        updates = super().train(jobs, data)
        torch.cuda.synchronize()
        self.seconds += time.perf_counter() - started
        return updates


def large(device: str, rounds: int) -> dict[str, Any]:
    """LeNet-5, 1,000 of 10,000 clients a round."""
    model, data = make_model("lenet5"), make_data(10_000)
    engine = Watched(model, device=device)
    start = Weights.of(model).to(device=device)
    fed = Federation(engine, start, data, RFS(), RECIPE, pace=Synchronous(1000), evaluate_every=10)
    fed.run(2)
    engine.seconds = 0.0
    seconds = timed(lambda: fed.run(rounds), 1, device)[0]
    return {
        "clients": 10_000,
        "a_round": 1000,
        "rounds": rounds,
        "seconds": round(seconds, 2),
        "ms_a_round": round(1e3 * seconds / rounds, 1),
        "share_not_training": round(1 - engine.seconds / seconds, 3),
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 1),
    }


def vgg(device: str, clients: int = 8, samples: int = 500) -> dict[str, Any]:
    """VGG-16 on images of CIFAR-10's size: an epoch of so many clients, and of the plain loop."""
    torch.manual_seed(0)
    model = build("vgg16", (3, 32, 32), classes=10)
    data = make_data(clients, samples, (3, 32, 32))
    jobs = make_jobs(model, clients, device, 0)
    found: dict[str, Any] = {}
    for engine in (StackedEngine(model, device=device), LoopEngine(model, device=device)):
        timed(lambda engine=engine: engine.train(jobs, data), 2, device)
        seconds = min(timed(lambda engine=engine: engine.train(jobs, data), 3, device))
        found[engine.name] = {
            "clients_an_hour": round(3600 * clients / seconds),
            "ms_a_client": round(1e3 * seconds / clients, 1),
            "reason": engine.describe()["reason"],
        }
    found["times"] = round(found["loop"]["ms_a_client"] / found["stacked"]["ms_a_client"], 2)
    return found


def agreement(device: str, seeds: int = 5) -> dict[str, Any]:
    """Accuracy on the built-in digits after 20 rounds, on a CPU and on the GPU, over seeds."""
    found: dict[str, list[float]] = {"cpu": [], device: []}
    for seed in range(seeds):
        data = unknot.federate(unknot.load("digits"), unknot.Dirichlet(20, alpha=0.5), key=seed)
        for where, values in found.items():
            fed = unknot.simulate("lenet5", data, "rfs", Recipe(SGD(0.1)), seed=seed, device=where)
            values.append(fed.run(20).scores["test"].accuracy)
    summary = {
        where: {"mean": round(statistics.mean(v), 4), "deviation": round(statistics.stdev(v), 4)}
        for where, v in found.items()
    }
    apart = [abs(a - b) for a, b in zip(*found.values(), strict=True)]
    return {**summary, "furthest_apart": round(max(apart), 4), "seeds": seeds}


def rows(record: dict[str, Any]) -> list[str]:
    """The record as the lines of a table: measured, busy, loop, floor; in milliseconds."""
    lines = []
    for name in ("mlp", "lenet5"):
        for clients in (100, 1000):
            found = record[f"{name}, {clients} clients"]
            floor = max(found["floor_operations_ms"], found["floor_bytes_ms"])
            cells = [f"{found['ms']:.1f}", f"{found['gpu_ms']['busy']:.1f}"]
            cells += [f"{found['loop_ms']:,.0f}", f"{floor:.1f}"]
            lines.append(f"| {NAMES[name]}, {clients:,} clients | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--models", nargs="+", default=["mlp", "lenet5"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--large", type=int, metavar="ROUNDS")
    parser.add_argument("--vgg", action="store_true")
    parser.add_argument("--agree", action="store_true", help="accuracy on a CPU and on the GPU, over seeds")
    parser.add_argument("--out", type=Path, help="write the record here, too")
    asked = parser.parse_args()
    result: dict[str, Any] = {"torch": torch.__version__}
    if asked.device != "cpu":
        result["gpu"] = torch.cuda.get_device_name()
    for name in asked.models:
        for clients in asked.clients:
            result[f"{name}, {clients} clients"] = cohort(
                name, clients, asked.device, asked.repeats, not asked.no_profile
            )
        result[f"{name}, MMT"] = {**trees(name, asked.device, 10), "goal": MMT_GOAL}
    if asked.agree:
        result["agreement"] = agreement(asked.device)
    if asked.vgg:
        result["vgg16"] = vgg(asked.device)
    if asked.large:
        result["large"] = large(asked.device, asked.large)
    text = json.dumps(result, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
