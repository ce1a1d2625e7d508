"""What every contestant is given: the workloads, the data, the start weights, the report.

Needs torch and numpy alone, so that it runs in the environments of all contestants.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 20240


@dataclass(frozen=True)
class Workload:
    model: str
    clients: int
    samples: int
    per_round: int
    batch: int
    rounds: int
    lr: float = 0.01
    title: str = ""


WORKLOADS = {
    "W1": Workload(
        "lenet5", 100, 600, 10, 32, 20, title="LeNet-5, 10 of 100 clients, 600 samples each, batch 32"
    ),
    "W2": Workload(
        "mlp", 10, 200, 10, 20, 100, title="MLP 784-80-10, 10 clients, 200 samples each, batch 20"
    ),
}


def make_data(workload: Workload) -> tuple[Tensor, Tensor]:
    """Images ``[clients, samples, 1, 28, 28]`` and labels: ten coarse shapes under noise.

    The speed of a round depends on the sizes, not on the pixels; the images are learnable so that
    the loss at the end shows whether a contestant has trained. One label in ten is random, so that
    the loss does not go to zero, where all would look alike or far apart.
    """
    rng = np.random.default_rng(SEED)
    coarse = rng.standard_normal((10, 1, 7, 7), dtype=np.float32)
    shapes = coarse.repeat(4, axis=2).repeat(4, axis=3)
    y = rng.integers(10, size=(workload.clients, workload.samples))
    x = rng.standard_normal((*y.shape, 1, 28, 28), dtype=np.float32)
    for client, labels in enumerate(y):
        x[client] *= 2.0
        x[client] += shapes[labels]
    y = np.where(rng.random(y.shape) < 0.1, rng.integers(10, size=y.shape), y)
    return torch.from_numpy(x), torch.from_numpy(y)


def make_model(workload: Workload) -> nn.Sequential:
    """The same start for all. Written out here: the peers do not import unknot."""
    torch.manual_seed(SEED)
    if workload.model == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 80), nn.ReLU(), nn.Linear(80, 10))
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def train_client(model: nn.Module, x: Tensor, y: Tensor, workload: Workload) -> None:
    """One epoch of SGD in a fresh random order: local training of the plain loop and of Flower's clients.

    Tuned: one gather for the whole epoch and slices of it instead of a gather a batch, the fused
    optimiser, gradients set to None.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=workload.lr, fused=True)
    order = torch.randperm(len(x))
    batches = torch.split(x[order], workload.batch), torch.split(y[order], workload.batch)
    for batch, labels in zip(*batches, strict=True):
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(F.cross_entropy(model(batch), labels))
        optimizer.step()


@torch.no_grad()
def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """The mean loss on all training data: everyone must end near the same figure."""
    losses = [F.cross_entropy(model(a), b, reduction="sum") for a, b in zip(x, y, strict=True)]
    return float(torch.stack(losses).sum() / y.numel())


def since_start() -> float:
    """Seconds since this process began, imports included."""
    # Field 22 of the process's line, in ticks since boot; the name in field 2 may hold spaces.
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def arguments(**extra: int) -> tuple[str, Workload, argparse.Namespace]:
    """The workload's name, the workload, and whole-number options with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--rounds", type=int, help="timed rounds; the workload's own by default")
    for name, default in extra.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    options.rounds = options.rounds or workload.rounds
    return options.workload, workload, options


def peak_memory() -> float:
    """Peak resident MiB, summed over this process and its descendants (pages they share count twice)."""
    parents, peaks = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it ended while we looked
            continue
        pid = int(status.parent.name)
        parents[pid] = int(fields["PPid"])
        peaks[pid] = int(fields.get("VmHWM", "0 kB").split()[0]) / 1024
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(peaks[pid] for pid in family)


def report(
    contestant: str,
    workload: str,
    *,
    startup: float,
    warmup: float,
    seconds: Sequence[float],
    loss: float,
    memory: float,
    versions: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    **more: float,
) -> None:
    """Print the one line."""
    line = {
        "contestant": contestant,
        "workload": workload,
        "seconds_per_round": statistics.median(seconds),
        "seconds_total": sum(seconds),
        "rounds": len(seconds),
        "startup_seconds": startup,
        "warmup_seconds": warmup,
        "loss": loss,
        "peak_memory_mib": round(memory, 1),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, **(versions or {})},
        "settings": settings or {},
        **more,
    }
    print(json.dumps(line), flush=True)
