"""Whom to ask where each client has mostly one class: at random, balanced, by K-Center, by a DQN; everybody.

``python -m benchmarks.selection [--data mnist] [--per-round 10] [--episodes 40] [--seeds 0,1,2] [--json]
[--record FILE]``.
An MLP, 100 clients of 100 samples, 80 % of one class each, 40 rounds; the accuracy over all rounds. The
network goes on learning over the episodes: each is a training of its own, from another start, with the policy
of the one before. One thread, 2 to 4 seconds a training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import unknot
from benchmarks import record, small
from unknot.core.data import FederatedData
from unknot.core.keys import Key
from unknot.core.selection import Selector
from unknot.core.training import SGD, Recipe
from unknot.data import DominantClass, federate, load
from unknot.experiments.seeds import parse_seeds
from unknot.federation import Synchronous
from unknot.select import DQN, AtRandom, Balanced, KCenter

ROUNDS, CLIENTS, SAMPLES, SHARE = 40, 100, 100, 0.8
RECIPE = Recipe(SGD(0.005), epochs=5, batch_size=64)


def train(data: FederatedData, select: Selector, per_round: int, seed: int) -> tuple[float, Selector]:
    """The accuracy over the rounds, and the selector as it is then."""
    fed = unknot.simulate(
        "mlp",
        data,
        "rfs",
        RECIPE,
        pace=Synchronous(per_round),
        select=select,
        threads=1,
        seed=seed,
        evaluate_on=("test",),
    )
    history = fed.run(ROUNDS)
    accuracies = [record.scores["test"].accuracy for record in history.rounds]
    return float(np.mean(accuracies)), fed.lanes["global"].selector


def compare(name: str, per_round: int, episodes: int, seed: int) -> dict[str, float]:
    partition = DominantClass(CLIENTS, share=SHARE, samples=SAMPLES)
    data = federate(load(name), partition, key=Key.root(seed), validation=600)
    plain: dict[str, Selector] = {"at random": AtRandom(), "balanced": Balanced(), "K-Center": KCenter()}
    found = {label: train(data, selector, per_round, seed)[0] for label, selector in plain.items()}
    found["everybody"] = train(data, AtRandom(), CLIENTS, seed)[0]
    policy = None
    for episode in range(episodes):
        accuracy, selector = train(data, DQN(policy=policy), per_round, seed + 1000 * episode)
        assert isinstance(selector, DQN)
        policy = selector.policy
        if episode in (0, episodes - 1):
            found[f"DQN, episode {episode + 1}"] = accuracy
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--per-round", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, help="also write it there, with commit and machine")
    few = {"ROUNDS": 2, "CLIENTS": 6, "SAMPLES": 20, "per_round": 3, "episodes": 2}
    given = small.parse(parser, globals(), arguments, data="digits", seeds="0", **few)
    runs = [compare(given.data, given.per_round, given.episodes, seed) for seed in parse_seeds(given.seeds)]
    table = {label: [run[label] for run in runs] for label in runs[0]}
    if given.record:
        asked = f"--per-round {given.per_round} --episodes {given.episodes} --seeds {given.seeds}"
        record.write(given.record, f"python -m benchmarks.selection --data {given.data} {asked}", table)
    if given.json:
        sys.stdout.write(json.dumps(table) + "\n")
        return 0
    for label, values in table.items():
        spread = f"{100 * min(values):.1f} to {100 * max(values):.1f}"
        sys.stdout.write(f"{label:<20} {100 * np.mean(values):.1f} % ({spread})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
