"""Whether one epoch of profiling says of a client what five do: Figure 4's clients, of the KNOT paper.

``python -m benchmarks.profiles [--seeds 0,1,2] [--record FILE]``. MNIST; one thread, two minutes. The rank
correlation of the disparities after one epoch and after five, and how many clients come to the same cluster.
What docs/methods/knot.md says of it is in docs/results/profiles.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import record, small
from unknot.experiments import prepare
from unknot.experiments.seeds import parse_seeds
from unknot.reproduce import Reproduction, load
from unknot.unlearn import knot

EPOCHS = (1, 5)
SCALE = "paper"


def profiled(seed: int, epochs: int) -> tuple[list[float], dict[int, int]]:
    """The disparities of the clients, in their order, and the cluster of each."""
    plan = load("knot-fig4")
    assert isinstance(plan, Reproduction)
    # With "without" profiles are kept after the clients were assigned.
    changes = [f"method.profile_epochs={epochs}", 'method.reassign="without"', "engine.threads=1"]
    run = next(run for run in plan.runs(SCALE, [seed], changes) if run.line.name == "knot")
    fed = prepare(run.experiment)
    fed.run(1)
    desk = fed.desk
    profiles = {client: desk.archive["profile", client] for client in sorted(desk.members)}
    clusters = {
        client: place for place, lane in enumerate(fed.lanes.values()) for client in sorted(lane.members)
    }
    return knot._disparities(desk, profiles), clusters


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's; disparities are all different."""
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def compare(seed: int) -> dict[str, float]:
    (few, first), (many, second) = (profiled(seed, epochs) for epochs in EPOCHS)
    same = sum(first[client] == second[client] for client in first)
    return {
        "rank correlation": round(rank_correlation(few, many), 3),
        "same cluster": same,
        "clients": len(first),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiles", description=__doc__)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--record", type=Path, help="also write it there, with commit and machine")
    given = small.parse(parser, globals(), arguments, seeds="0", SCALE="small")
    found = {str(seed): compare(seed) for seed in parse_seeds(given.seeds)}
    if given.record:
        record.write(given.record, f"python -m benchmarks.profiles --seeds {given.seeds}", found)
    for seed, figures in found.items():
        sys.stdout.write(f"seed {seed}: {figures}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
