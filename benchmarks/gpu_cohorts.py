"""Cohorts of the papers' models on a GPU: an epoch of 600 samples for each client, measured."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from benchmarks import gpu_profile
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.bits.trial import try_widths
from unknot.models import build

SAMPLES, BATCH = 600, 32
RECIPE = Recipe(SGD(0.01), batch_size=BATCH)
GOALS = {("mlp", 100): 4.0, ("mlp", 1000): 12.0, ("lenet5", 100): 25.0, ("lenet5", 1000): 150.0}
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


def make_jobs(model: nn.Module, clients: int, device: str, round: int, recipe: Recipe = RECIPE) -> list[Job]:
    start = Weights.of(model).to(device=device)
    root = Key.root(0).child("round", round)
    return [Job(Unit(c), start, root.child("client", c), recipe) for c in range(clients)]


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


def fresh(device: str) -> None:
    """Memory is counted from here: nothing is left of what was measured before."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


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


def cohort(
    name: str, clients: int, device: str, repeats: int, profiled: bool, precision: str
) -> dict[str, Any]:
    fresh(device)
    model, data = make_model(name), make_data(clients)
    engine = StackedEngine(model, device=device, precision=precision)
    rounds = iter([make_jobs(model, clients, device, number) for number in range(repeats + 6)])

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
            stages = sum(isinstance(module, nn.Conv2d) for module in model.modules())
            result["profile"] = gpu_profile.spent(gpu_profile.traced(work), stages)
        result["first_round"] = first_round(model, data, device, precision)
    loop = LoopEngine(model, device=device)
    few = make_jobs(model, clients, device, 0)[:3]
    timed(lambda: loop.train(few, data), 1, device)
    alone = statistics.median(timed(lambda: loop.train(few, data), 2, device)) / len(few)
    result["loop_ms"] = round(1e3 * alone * clients, 1)
    return result


def lowered(names: Sequence[str], cohorts: Sequence[int], device: str, repeats: int = 3) -> dict[str, Any]:
    """Milliseconds of the cohorts' epochs with products in bfloat16."""
    found: dict[str, Any] = {"precision": "bf16"}
    for name in names:
        for clients in cohorts:
            model, data = make_model(name), make_data(clients)
            engine = StackedEngine(model, device=device, precision="bf16")
            rounds = iter([make_jobs(model, clients, device, number) for number in range(repeats + 3)])

            def work(engine: Any = engine, rounds: Any = rounds, data: FederatedData = data) -> object:
                return engine.train(next(rounds), data)

            timed(work, 3, device)
            found[f"{name}, {clients} clients"] = {
                "ms": round(1e3 * statistics.median(timed(work, repeats, device)), 2),
                "path": engine.describe()["path"],
            }
    return found


def first_round(model: nn.Module, data: FederatedData, device: str, precision: str) -> dict[str, float]:
    """Milliseconds of a new engine's first round, kernels being compiled already, and of its trials."""
    engine = StackedEngine(model, device=device, precision=precision)
    jobs = make_jobs(model, len(data.clients), device, 0)
    trials: list[float] = []

    def watched(*arguments: Any) -> dict[int, bool]:
        found: list[dict[int, bool]] = []
        trials.extend(timed(lambda: found.append(try_widths(*arguments)), 1, device))
        return found[0]

    with patch("unknot.engine.stacked.try_widths", watched):
        seconds = timed(lambda: engine.train(jobs, data), 1, device)[0]
    return {"ms": round(1e3 * seconds, 1), "trials_ms": round(1e3 * sum(trials), 1)}


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
