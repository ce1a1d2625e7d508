"""How far a GPU is used: ``python -m benchmarks.gpu``.

One epoch of 600 samples (batches of 32, SGD, float32) for cohorts of the papers' models: the stacked engine
as it comes beside the plain loop on the same GPU, where its time goes, and the floor of operations and
bytes. Then what MMT's influence trees cost, as multiples of FedAvg. ``--large`` adds 100 rounds among 10,000
clients, and how much of them is not training; ``--vgg`` VGG-16, of which one fills the GPU; ``--price`` what
it costs that bits are the same each time; ``--lowered`` the cohorts with products in bfloat16, beside the
others. ``--precision`` holds for all that the stacked engine does but VGG-16, which has the precision of its
figure; the plain loop computes in full, but there. Prints one JSON object. ``--docs`` measures nothing: it
writes what ``results/gpu.json`` there has to tell into the pages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import unknot
from benchmarks import small
from benchmarks.gpu_cohorts import RECIPE, cohort, fresh, lowered, make_data, make_jobs, make_model, timed
from benchmarks.gpu_pages import write_pages
from unknot.core.data import FederatedData
from unknot.core.jobs import Job, Update
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import LoopEngine, StackedEngine
from unknot.engine.cuda import linear
from unknot.engine.layers import rules
from unknot.engine.precision import PRECISIONS
from unknot.engine.ways.stack import Stacking
from unknot.experiments import Experiment
from unknot.federation import Federation, Synchronous
from unknot.models import build
from unknot.reproduce.reproduction import Reproduction, load
from unknot.unlearn import MMT, RFS

MMT_GOAL = 1.5
NOT_TRAINING_GOAL = 0.1


class Free(StackedEngine):
    """As PyTorch would have it where nobody asks for the same bits each time.

    Any number of rows, none of them tried; of all algorithms that cuDNN has those that are fastest here.
    """

    def _tested(self, *_: Any) -> Stacking | None:
        return replace(self.setting, widths=tuple(range(1, self.rows + 1)))

    @contextmanager
    def gpu_settings(self) -> Iterator[None]:
        tf32 = self.precision.tf32
        with (
            super().gpu_settings(),
            torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=tf32),
        ):
            yield


@contextmanager
def _no_kernels_of_our_own() -> Iterator[None]:
    with (
        patch.object(rules, "ready", lambda x: False),
        patch.object(linear, "taken", lambda *_: False),
    ):
        yield


def price(device: str, repeats: int, precision: str) -> dict[str, Any]:
    """Milliseconds of an epoch with the same bits each time, and without; the two take turns."""
    torch.manual_seed(0)
    large = build("vgg16", (3, 32, 32), classes=10)
    cases = {
        "lenet5, 100 clients, batched": (make_model("lenet5"), make_data(100), "batched"),
        "mlp, 100 clients, batched": (make_model("mlp"), make_data(100), "batched"),
        "vgg16, 8 clients, loop": (large, make_data(8, 500, (3, 32, 32)), "loop"),
    }
    found: dict[str, Any] = {}
    for title, (model, data, path) in cases.items():
        jobs = make_jobs(model, len(data.clients), device, 0)
        ours = StackedEngine(model, device=device, path=path, precision=precision)
        free = Free(model, device=device, path=path, precision=precision)

        def freely(free: Free = free, jobs: list[Job] = jobs, data: FederatedData = data) -> object:
            with _no_kernels_of_our_own():
                return free.train(jobs, data)

        def same(ours: StackedEngine = ours, jobs: list[Job] = jobs, data: FederatedData = data) -> object:
            return ours.train(jobs, data)

        for work in (same, freely):
            timed(work, 3, device)
        pairs = [(timed(same, 1, device)[0], timed(freely, 1, device)[0]) for _ in range(repeats)]
        found[title] = {
            "same_bits_ms": round(1e3 * statistics.median(a for a, _ in pairs), 2),
            "free_ms": round(1e3 * statistics.median(b for _, b in pairs), 2),
            "times": round(statistics.median(a / b for a, b in pairs), 2),
        }
    return found


def trees(name: str, device: str, rounds: int, precision: str) -> dict[str, float]:
    """Seconds a round of MMT over those of FedAvg, 16 clients; the two take turns."""
    model, data = make_model(name), make_data(16)
    feds = {
        method.name: Federation(
            StackedEngine(model, device=device, precision=precision),
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


def large(device: str, rounds: int, precision: str) -> dict[str, Any]:
    """LeNet-5, 1,000 of 10,000 clients a round."""
    fresh(device)
    model, data = make_model("lenet5"), make_data(10_000)
    engine = Watched(model, device=device, precision=precision)
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
        "goal": NOT_TRAINING_GOAL,
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 1),
    }


def judging(name: str, device: str, precision: str, models: int = 20) -> dict[str, Any]:
    """Milliseconds to judge a model on 10,000 samples: alone, among several, and one by one by the loop."""
    model, data = make_model(name), make_data(10, 1000)
    weights = [Weights.of(model).to(device=device) * (1 + i / models) for i in range(models)]
    engine, loop = StackedEngine(model, device=device, precision=precision), LoopEngine(model, device=device)

    def ms(work: Callable[[], object], many: int) -> float:
        timed(work, 2, device)
        return round(1e3 * min(timed(work, 5, device)) / many, 2)

    return {
        "alone": ms(lambda: engine.evaluate(weights[0], data.train), 1),
        f"among {models}": ms(lambda: engine.evaluate_all(weights, data.train), models),
        "loop": ms(lambda: loop.evaluate(weights[0], data.train), 1),
    }


def figure_5() -> Experiment:
    """CIFAR-10 in KNOT's Figure 5, as ``unknot reproduce knot-fig5 --scale paper`` has it."""
    plan = load("knot-fig5")
    assert isinstance(plan, Reproduction)
    return next(run for run in plan.runs("paper", [0]) if run.key == "cifar10/fedbuff/0").experiment


def vgg(device: str, clients: int = 4) -> dict[str, Any]:
    """VGG-16 as in that figure, on drawn images: an epoch of so many clients, here and by the plain loop.

    One epoch is measured; a client of the figure takes as many times as long as it has epochs.
    """
    asked = figure_5()
    recipe, samples = asked.setup.recipe, asked.data.partition.samples
    torch.manual_seed(0)
    model = build(asked.model.name, (3, 32, 32), classes=10, **asked.model.options)
    data = make_data(clients, samples, (3, 32, 32))
    jobs = make_jobs(model, clients, device, 0, replace(recipe, epochs=1))
    found: dict[str, Any] = {
        "setting": {
            "clients": clients,
            "samples": samples,
            "batch": recipe.batch_size,
            "epochs": recipe.epochs,
            "momentum": recipe.optimizer.momentum,
            **asked.model.options,
            **asked.engine.options,
        }
    }
    stacked = StackedEngine(model, device=device, **asked.engine.options)
    loop = LoopEngine(model, device=device)
    loop.precision = stacked.precision  # its products are rounded alike
    for engine in (stacked, loop):
        timed(lambda engine=engine: engine.train(jobs, data), 2, device)
        seconds = min(timed(lambda engine=engine: engine.train(jobs, data), 3, device))
        found[engine.name] = {
            "ms_an_epoch": round(1e3 * seconds / clients, 1),
            "clients_an_hour": round(3600 * clients / (seconds * recipe.epochs)),
            "reason": engine.describe()["reason"],
        }
    found["times"] = round(found["loop"]["ms_an_epoch"] / found["stacked"]["ms_an_epoch"], 2)
    return found


def agreement(device: str, precision: str, seeds: int = 5) -> dict[str, Any]:
    """Accuracy on the built-in digits after 20 rounds, on a CPU and on the GPU, over seeds."""
    found: dict[str, list[float]] = {"cpu": [], device: []}
    for seed in range(seeds):
        data = unknot.federate(unknot.load("digits"), unknot.Dirichlet(20, alpha=0.5), key=seed)
        for where, values in found.items():
            options = {"precision": precision}
            fed = unknot.simulate(
                "lenet5", data, "rfs", Recipe(SGD(0.1)), seed=seed, device=where, engine_options=options
            )
            values.append(fed.run(20).scores["test"].accuracy)
    summary = {
        where: {"mean": round(statistics.mean(v), 4), "deviation": round(statistics.stdev(v), 4)}
        for where, v in found.items()
    }
    apart = [abs(a - b) for a, b in zip(*found.values(), strict=True)]
    return {**summary, "furthest_apart": round(max(apart), 4), "seeds": seeds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float32", choices=PRECISIONS)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--models", nargs="+", default=["mlp", "lenet5"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--large", type=int, metavar="ROUNDS")
    parser.add_argument("--vgg", action="store_true")
    parser.add_argument("--agree", action="store_true", help="accuracy on a CPU and on the GPU, over seeds")
    parser.add_argument("--price", action="store_true", help="what the same bits each time cost")
    parser.add_argument("--lowered", action="store_true", help="the cohorts with products in bfloat16, too")
    parser.add_argument("--out", type=Path, help="write the record here, too")
    parser.add_argument("--docs", type=Path, help="measure nothing: write the record there into the pages")
    few = {"clients": [2], "models": ["mlp"], "repeats": 1, "no_profile": True}
    asked = small.parse(parser, globals(), device="cpu", **few)
    if asked.docs:
        write_pages(asked.docs)
        return
    if asked.device != "cpu" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu runs through all of it without one")
    if asked.lowered and asked.precision != "float32":
        parser.error("--lowered puts bfloat16 beside float32: leave --precision out")
    result: dict[str, Any] = {"torch": torch.__version__, "precision": asked.precision}
    if asked.device != "cpu":
        result["gpu"] = torch.cuda.get_device_name()
    for name in asked.models:
        for clients in asked.clients:
            result[f"{name}, {clients} clients"] = cohort(
                name, clients, asked.device, asked.repeats, not asked.no_profile, asked.precision
            )
        result[f"{name}, judging"] = judging(name, asked.device, asked.precision)
        result[f"{name}, MMT"] = {**trees(name, asked.device, 10, asked.precision), "goal": MMT_GOAL}
    if asked.lowered:
        result["lowered"] = lowered(asked.models, asked.clients, asked.device)
    if asked.price:
        result["price"] = price(asked.device, asked.repeats, asked.precision)
    if asked.agree:
        result["agreement"] = agreement(asked.device, asked.precision)
    if asked.vgg:
        result["vgg16"] = vgg(asked.device)
    if asked.large:
        result["large"] = large(asked.device, asked.large, asked.precision)
    text = json.dumps(result, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
