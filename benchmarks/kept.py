"""What it costs to keep a run: ``python -m benchmarks.kept``.

W1 and W2 with a folder at the default settings and without, a few rounds of each in turns, so that whatever
else the machine does falls on both; what is paid once, a round and a checkpoint, apart; the time to resume a
run of 10,000 clients in 100 clusters; what methods that keep a history take on the disk and in time.
``--out FILE`` leaves the record.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

from benchmarks import small
from benchmarks.peers.common import SEED, WORKLOADS, make_data
from benchmarks.peers.unknot_run import federated, federation
from benchmarks.record import write
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Buffered, Federation, Method, Synchronous
from unknot.models import build
from unknot.store.keeper import EVERY, RunKeeper, keeper_of
from unknot.unlearn import FATS, KNOT, RFS, ExactFun, FedEraser

TURNS = {"W1": (36, 1), "W2": (60, 15)}
"""How many turns, and of how many rounds each."""
WARM = 5  # rounds
PAIRS = 5
"""Of runs with a method that keeps a history: they are short."""
CLIENTS, CLUSTERS = 10_000, 100
RESUMED_AFTER = (5, 50)
"""Rounds of each cluster: all that were are read again."""
CALLED = {"rfs": "RFS", "federaser": "FedEraser", "fats": "FATS", "exact-fun": "Exact-Fun"}
"""Methods that keep a history, as the page calls them."""


class Spent(NamedTuple):
    """Seconds on the clock, and of this process's own work: the rest is waiting, for a disk or a core."""

    wall: float
    cpu: float

    @staticmethod
    def during(work: Callable[[], object]) -> Spent:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)

    @staticmethod
    def total(parts: list[Spent]) -> Spent:
        return Spent(sum(p.wall for p in parts), sum(p.cpu for p in parts))


@contextmanager
def noted_checkpoints() -> Iterator[list[Spent]]:
    """Within: what every checkpoint takes."""
    found: list[Spent] = []
    checkpoint = RunKeeper.checkpoint
    with mock.patch.object(
        RunKeeper,
        "checkpoint",
        lambda keeper, fed: found.append(Spent.during(lambda: checkpoint(keeper, fed))),
    ):
        yield found


def in_turns(name: str, place: Path) -> dict[str, Any]:
    """Two federations of the same, one of them kept: so many rounds of the one, then of the other."""
    turns, each = TURNS[name]
    workload = WORKLOADS[name]
    data = make_data(workload)
    plain, kept = (federation(workload, federated(*data), []) for _ in range(2))
    with noted_checkpoints() as checkpoints:
        # The clock goes on while the other one runs: a checkpoint is due after as long of its own time.
        begun = Spent.during(lambda: RunKeeper.create(kept, place, every=2 * EVERY))
        for fed in (plain, kept):
            fed.begin(WARM + turns * each + 1)  # the last one is not run: the end is measured by itself
            for _ in range(WARM):
                fed.step()
        first = checkpoints.pop(0)
        checkpoints.clear()
        taken: dict[Federation, list[Spent]] = {plain: [], kept: []}
        for turn in range(turns):
            for fed in (plain, kept) if turn % 2 else (kept, plain):
                taken[fed].append(Spent.during(lambda fed=fed: [fed.step() for _ in range(each)]))  # type: ignore[misc]
        within = Spent.total(checkpoints)
        count = len(checkpoints)
        keeper = keeper_of(kept)
        last = Spent.during(lambda: keeper.checkpoint(kept))
        keeper.close()
    without, with_ = Spent.total(taken[plain]), Spent.total(taken[kept])
    rounds = turns * each
    return {
        "plain_ms": 1000 * without.wall / rounds,
        "kept_ms": 1000 * with_.wall / rounds,
        "ratio": with_.wall / without.wall,
        "cpu_ratio": with_.cpu / without.cpu,
        "turns": {
            part: statistics.quantiles(
                [getattr(k, part) / getattr(p, part) for p, k in zip(taken[plain], taken[kept], strict=True)]
            )
            for part in ("wall", "cpu")
        },
        "checkpoints": count,
        "checkpoints_ms": [1000 * within.wall / max(count, 1), 1000 * within.cpu / max(count, 1)],
        "once_ms": {
            "begin": [1000 * part for part in begun],
            "first checkpoint": [1000 * part for part in first],
            "last checkpoint": [1000 * part for part in last],
        },
    }


def overhead(name: str, repeats: int) -> dict[str, Any]:
    """The median of the repeats counts, and all are told."""
    every = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as place:
            every.append(in_turns(name, Path(place) / "run"))
    middle = {
        part: statistics.median(one[part] for one in every)
        for part in ("plain_ms", "kept_ms", "ratio", "cpu_ratio")
    }
    return {**middle, "repeats": every}


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
        pace=Buffered(CLIENTS // 5, CLIENTS // 10, 20),
        seed=SEED,
        evaluate_every=0,
    )


def resuming(rounds: int) -> dict[str, Any]:
    """How long it takes from a folder to a federation that can go on; building it and its data left out."""
    with tempfile.TemporaryDirectory() as place:
        fed = many()
        keeper = RunKeeper.create(fed, Path(place) / "run")
        fed.run(rounds)
        started = time.perf_counter()
        keeper.checkpoint(fed)
        checkpoint = time.perf_counter() - started
        keeper.close()
        size = _size(Path(place))
        again = many()
        started = time.perf_counter()
        RunKeeper.go_on(again, Path(place) / "run").close()
        seconds = time.perf_counter() - started
        return {"rounds": rounds, "seconds": seconds, "checkpoint": checkpoint, "bytes": size}


def history(make: Callable[[], Method]) -> dict[str, Any]:
    """Runs of 20 rounds with 10 clients (W2's), kept and not in turns: what lies in the folder, how long."""
    workload = WORKLOADS["W2"]
    data = make_data(workload)

    def federation_of() -> Federation:
        samples, method = federated(*data), make()
        torch.manual_seed(SEED)
        model = build(workload.model, tuple(samples.train.x.shape[1:]), classes=10)
        return Federation(
            StackedEngine(model),
            Weights.of(model),
            samples,
            method,
            Recipe(SGD(0.01), batch_size=20),
            seed=SEED,
            evaluate_every=0,
            **({"pace": Synchronous(10)} if method.selects else {}),  # type: ignore[arg-type]
        )

    pairs: list[tuple[Spent, Spent]] = []
    sizes: dict[str, Any] = {}
    federation_of().run(20)  # the first one is slower, kept or not
    for turn in range(PAIRS):
        with tempfile.TemporaryDirectory() as place, noted_checkpoints() as checkpoints:
            plain, kept = federation_of(), federation_of()
            keeper = RunKeeper.create(kept, Path(place) / "run")
            taken = {
                fed: Spent.during(lambda fed=fed: fed.run(20))  # type: ignore[misc]
                for fed in ((plain, kept) if turn % 2 else (kept, plain))
            }
            keeper.close()
            pairs.append((taken[plain], taken[kept]))
            sizes = {
                "bytes": _size(Path(place)),
                "models": _size(Path(place)) / kept.initial.nbytes,
                "stored": kept.costs.bytes_stored,
                "last_checkpoint_ms": [1000 * part for part in checkpoints[-1]],
            }
    return {
        **sizes,
        "plain_s": statistics.median(plain.wall for plain, _ in pairs),
        "kept_s": statistics.median(kept.wall for _, kept in pairs),
        "ratio": statistics.median(kept.wall / plain.wall for plain, kept in pairs),
        "cpu_ratio": statistics.median(kept.cpu / plain.cpu for plain, kept in pairs),
        "pairs": pairs,
    }


def rows(found: dict[str, Any]) -> list[str]:
    """The table of the page on what a round, a checkpoint and the start cost, from a record."""
    every = [found[name]["repeats"] for name in WORKLOADS]

    def middle(repeats: list[dict[str, Any]], *path: str) -> list[float]:
        pairs = []
        for one in repeats:
            for part in path:
                one = one[part]
            pairs.append(one)
        return [statistics.median(pair[place] for pair in pairs) for place in (0, 1)]

    ratios = [[one["ratio"] for one in repeats] for repeats in every]
    times = [f"× {statistics.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios]
    work = [f"× {statistics.median(one['cpu_ratio'] for one in repeats):.2f}" for repeats in every]
    checkpoints = [middle(repeats, "checkpoints_ms") for repeats in every]
    starts = [middle(repeats, "once_ms", "begin") for repeats in every]
    table = {
        "": list(WORKLOADS),
        "a round, with a folder against without: time": times,
        "the same, processor time alone": work,
        "a checkpoint, every 5 s: time (of it processor)": [f"{a:.0f} ms ({b:.0f})" for a, b in checkpoints],
        "once, at the start: time (processor time, of both cores)": [
            f"{a / 1000:.2f} s ({b / 1000:.2f})" for a, b in starts
        ],
    }
    return _lines(table)


def history_rows(found: dict[str, Any]) -> list[str]:
    """The table of the page on methods that keep a history, the smallest folder first."""
    table = {"": ["folder", "time", "processor time"]}
    for name, one in sorted(found["histories"].items(), key=lambda pair: pair[1]["bytes"]):
        size = one["bytes"] / 1e6
        folder = f"{size:.1f} MB" if size < 10 else f"{size:.0f} MB"
        table[CALLED[name]] = [folder, f"× {one['ratio']:.2f}", f"× {one['cpu_ratio']:.2f}"]
    return _lines(table)


def _lines(table: dict[str, list[str]]) -> list[str]:
    """In Markdown, the first of the table as its head."""
    found = [f"| {' | '.join([name, *cells])} |" for name, cells in table.items()]
    head = found[0].replace("|  |", "| |", 1)
    return [head, "|" + "---|" * head.count(" | ") + "---|", *found[1:]]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    few = {"TURNS": {"W2": (2, 1)}, "PAIRS": 1, "CLIENTS": 100, "CLUSTERS": 4, "RESUMED_AFTER": (2,)}
    given = small.parse(parser, globals(), arguments, repeats=1, **few)
    torch.set_num_threads(torch.get_num_threads())
    np.seterr(all="ignore")
    found: dict[str, Any] = {name: overhead(name, given.repeats) for name in TURNS}
    found["resume"] = [resuming(rounds) for rounds in RESUMED_AFTER]
    methods: dict[str, Callable[[], Method]] = {
        "rfs": RFS,
        "federaser": lambda: FedEraser(interval=1),
        "exact-fun": lambda: ExactFun(alpha=0.1),
        "fats": lambda: FATS(rho_client=5, rounds=20, local_steps=10, clients=10),
    }
    found["histories"] = {name: history(make) for name, make in methods.items()}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if given.out is not None:
        write(given.out, "python -m benchmarks.kept", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
