"""What it costs to keep a run: ``python -m benchmarks.kept``.

W1 and W2 with a folder at the default settings and without, turn by turn in one process; the time to resume
a run of 10,000 clients in 100 clusters; what methods that keep a history have on the disk. ``--out FILE``
leaves the record.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.common import SEED, WORKLOADS, make_data
from benchmarks.peers.unknot_run import federated, federation
from benchmarks.record import write
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Buffered, Federation, Method, Synchronous
from unknot.models import build
from unknot.store.keeper import RunKeeper
from unknot.unlearn import FATS, KNOT, RFS, ExactFun, FedEraser

ROUNDS = {"W1": 40, "W2": 1500}
CLIENTS, CLUSTERS = 10_000, 100


def rounds(name: str, folder: Path | None) -> float:
    """Milliseconds a round, the first few left out; with everything that keeping takes, but for its start."""
    times: list[float] = []
    fed = federation(WORKLOADS[name], federated(*make_data(WORKLOADS[name])), times)
    keeper = None if folder is None else RunKeeper.create(fed, folder)
    fed.run(ROUNDS[name])
    if keeper is not None:
        keeper.close()
    return 1000 * (times[-1] - times[4]) / (len(times) - 5)


def overhead(name: str, repeats: int) -> dict[str, Any]:
    """In turns; the median of the pairs' ratios counts."""
    pairs = []
    for turn in range(repeats):
        with tempfile.TemporaryDirectory() as place:
            both = [(False, None), (True, Path(place) / "run")]
            found = {kept: rounds(name, folder) for kept, folder in (both if turn % 2 else both[::-1])}
        pairs.append((found[False], found[True]))
    plain, kept = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(kept / plain for plain, kept in pairs)
    return {"plain_ms": plain, "kept_ms": kept, "ratio": ratio, "pairs": pairs}


def many() -> Federation:
    """10,000 clients with two samples each, in 100 clusters that move on their own."""
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(CLIENTS, 2, 16, generator=generator)
    y = torch.randint(10, (CLIENTS, 2), generator=generator)
    torch.manual_seed(SEED)
    model = build("mlp", (16,), classes=10, hidden=(8,))
    return Federation(
        StackedEngine(model),
        Weights.of(model),
        federated(x, y),
        KNOT(clusters=CLUSTERS, by="random"),
        Recipe(SGD(0.05), batch_size=2),
        pace=Buffered(2000, 1000, 20),
        seed=SEED,
        evaluate_every=0,
    )


def resuming() -> dict[str, Any]:
    """How long it takes from a folder to a federation that can go on; building it and its data left out."""
    with tempfile.TemporaryDirectory() as place:
        fed = many()
        keeper = RunKeeper.create(fed, Path(place) / "run")
        fed.run(5)
        started = time.perf_counter()
        keeper.checkpoint(fed)
        checkpoint = time.perf_counter() - started
        keeper.close()
        size = _size(Path(place))
        again = many()
        started = time.perf_counter()
        RunKeeper.go_on(again, Path(place) / "run").close()
        return {"seconds": time.perf_counter() - started, "checkpoint": checkpoint, "bytes": size}


def history(method: Method) -> dict[str, Any]:
    """A run of 20 rounds with 10 clients (W2's): what lies in its folder, and what a checkpoint takes."""
    workload = WORKLOADS["W2"]
    data = federated(*make_data(workload))
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    pace = {"pace": Synchronous(10)} if method.selects else {}
    with tempfile.TemporaryDirectory() as place:
        fed = Federation(
            StackedEngine(model),
            Weights.of(model),
            data,
            method,
            Recipe(SGD(0.01), batch_size=20),
            seed=SEED,
            evaluate_every=0,
            **pace,  # type: ignore[arg-type]
        )
        keeper = RunKeeper.create(fed, Path(place) / "run")
        started = time.perf_counter()
        fed.run(20)
        ran = time.perf_counter() - started
        started = time.perf_counter()
        keeper.checkpoint(fed)
        checkpoint = time.perf_counter() - started
        keeper.close()
        return {
            "bytes": _size(Path(place)),
            "models": _size(Path(place)) / fed.initial.nbytes,
            "stored": fed.costs.bytes_stored,
            "checkpoint": checkpoint,
            "seconds": ran,
        }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(torch.get_num_threads())
    np.seterr(all="ignore")
    found: dict[str, Any] = {name: overhead(name, given.repeats) for name in WORKLOADS}
    found["resume"] = resuming()
    methods: dict[str, Method] = {
        "rfs": RFS(),
        "federaser": FedEraser(interval=1),
        "exact-fun": ExactFun(alpha=0.1),
        "fats": FATS(rho_client=5, rounds=20, local_steps=10, clients=10),
    }
    found["histories"] = {name: history(method) for name, method in methods.items()}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if given.out is not None:
        write(given.out, "python -m benchmarks.kept", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
