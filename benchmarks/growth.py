"""How a round grows with the number of clients: ``python -m benchmarks.growth``.

10,000, 100,000 and 1,000,000 clients with two samples each, a cohort of 1,000, a small model: at a
synchronous pace, and at a buffered one. Each case runs in a process of its own, turn by turn. Prints one
JSON line a case (medians over the repeats), and fails when with ten times the clients a round takes more
than twice the processor time, which other load on the machine has less of a part in than in seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import parts, small
from benchmarks.peers.common import SEED, peak_memory, since_start
from benchmarks.peers.unknot_run import federated
from benchmarks.run import Record, machine
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Buffered, Clock, Event, FedAvg, FedBuff, Federation, Pareto, Synchronous
from unknot.models import build
from unknot.unlearn import RFS

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = (10_000, 100_000, 1_000_000)
COHORT, FEATURES, CLASSES = 1000, 16, 10
PACES = {"synchronous": Synchronous(COHORT), "buffered": Buffered(2 * COHORT, COHORT, 20)}
TIMES = 2.0
GROWTH = """\
A round that asks {cohort:,} of them, however many there are (two samples each, a small model; `python -m
benchmarks.growth --docs docs` on {date}, {repeats} runs of {rounds} rounds in turns; × is the processor time
beside that with a tenth of the clients). What still grows is a draw for every client, and a lineage over all
of them. The start makes and checks a shard for every client."""


def federation(clients: int, pace: str, times: list[float]) -> Federation:
    """Two random samples a client; `times` gets the end of every round."""
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(clients, 2, FEATURES, generator=generator)
    y = torch.randint(CLASSES, (clients, 2), generator=generator)
    torch.manual_seed(SEED)
    model = build("mlp", (FEATURES,), classes=CLASSES, hidden=(8,))

    def note(event: Event) -> None:
        times.append(time.perf_counter())

    return Federation(
        StackedEngine(model),
        Weights.of(model),
        federated(x, y),
        RFS(),
        Recipe(SGD(0.01), batch_size=2),
        pace=PACES[pace],
        aggregate=FedAvg() if pace == "synchronous" else FedBuff(),
        clock=Clock(Pareto()),
        seed=SEED,
        evaluate_every=0,
        observers=[note],
    )


def run_one(clients: int, pace: str, rounds: int) -> Record:
    """One case, in this process."""
    times: list[float] = []
    fed = federation(clients, pace, times)
    ready = since_start()
    before = fed.run(rounds=1).seconds["train"]
    first_round = since_start()
    cpu = time.process_time()
    history = fed.run(rounds=rounds)
    cpu = time.process_time() - cpu
    return {
        "pace": pace,
        "clients": clients,
        "cohort": COHORT,
        "rounds": rounds,
        "seconds_per_round": statistics.median(np.diff(times).tolist()[1:]),
        "cpu_seconds_per_round": cpu / rounds,
        "train_seconds_per_round": (history.seconds["train"] - before) / rounds,
        "federation_ready_seconds": ready,
        "first_round_done_seconds": first_round,
        "peak_rss_mb": peak_memory() * 1.048576,
    }


def run_apart(clients: int, pace: str, rounds: int) -> Record:
    """One case, in a process of its own."""
    case = ["--one", str(clients), pace, "--rounds", str(rounds)]
    command = [sys.executable, "-m", "benchmarks.growth", *case]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    record: Record = json.loads(done.stdout)
    print(f"{pace}, {clients:,} clients: {record['seconds_per_round']:.4f} s a round", file=sys.stderr)
    return record


def medians(records: Sequence[Record]) -> Record:
    """One line from the repeats of a case."""
    numbers = [key for key, value in records[0].items() if isinstance(value, float)]
    return records[0] | {key: round(statistics.median(r[key] for r in records), 4) for key in numbers}


def grown(pace: str, sizes: Sequence[int], runs: Sequence[Record]) -> list[Record]:
    """A line for each number of clients, with how many times the processor time of the one before."""
    lines: list[Record] = []
    for clients in sizes:
        line = medians([run for run in runs if (run["clients"], run["pace"]) == (clients, pace)])
        if lines:
            line["times_before"] = round(
                line["cpu_seconds_per_round"] / lines[-1]["cpu_seconds_per_round"], 2
            )
        lines.append(line)
    return lines


def growth_part(growth: Record) -> str:
    """What was found, as a table."""
    lines = growth["lines"]
    text = [
        GROWTH.format(date=growth["machine"]["date"], repeats=growth["repeats"], **lines[0]),
        "",
        "| pace | clients | seconds a round | processor, s | × | training, s | first round, s | memory, MB |",
        "|---" * 8 + "|",
    ]
    for line in lines:
        times = f"{line['times_before']:.2f}" if "times_before" in line else ""
        text.append(
            f"| {line['pace']} | {line['clients']:,} | {line['seconds_per_round']:.3f} "
            f"| {line['cpu_seconds_per_round']:.3f} | {times} "
            f"| {line['train_seconds_per_round']:.3f} | {line['first_round_done_seconds']:.1f} "
            f"| {line['peak_rss_mb']:.0f} |"
        )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds a run (20)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (3)")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS), help="how many there are")
    parser.add_argument("--paces", nargs="+", default=list(PACES), choices=list(PACES))
    parser.add_argument(
        "--docs",
        type=Path,
        help="where results/growth.json and its part of benchmarks.md are written; left out: nowhere",
    )
    parser.add_argument(
        "--one", nargs=2, metavar=("CLIENTS", "PACE"), help="this case alone, in this process"
    )
    options = small.parse(parser, globals(), rounds=2, repeats=1, clients=[2000], TIMES=1e9)
    if options.one:
        print(json.dumps(run_one(int(options.one[0]), options.one[1], options.rounds)))
        return
    cases = [(clients, pace) for pace in options.paces for clients in options.clients]
    runs = [run_apart(*case, options.rounds) for _ in range(options.repeats) for case in cases]
    lines = [line for pace in options.paces for line in grown(pace, options.clients, runs)]
    for line in lines:
        print(json.dumps(line))
    if options.docs:
        record = {"machine": machine(), "repeats": options.repeats, "lines": lines}
        (options.docs / "results" / "growth.json").write_text(json.dumps(record, indent=1) + "\n")
        parts.write(options.docs / "benchmarks.md", growth=growth_part(record))
    worst = max(line.get("times_before", 0.0) for line in lines)
    if worst > TIMES:
        sys.exit(
            f"a round takes {worst:.2f} times the processor time with more clients; the limit is {TIMES:g}"
        )


if __name__ == "__main__":
    main()
