"""How long influence trees take: ``python -m benchmarks.trees``. One thread; minutes at most.

Probabilities are drawn once with a fixed seed: alike, uniform in (0, 1), or skewed (its fourth power).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks import small
from unknot.topology import Tree, best_within, build, keep, rebuild_proven, score
from unknot.topology import budget as budgets

CLIENTS = 10_000
BUDGETS = (10, 100, 1000, 5000, 9000)
EXACT = budgets.EXACT


def draw(kind: str, count: int) -> dict[int, float]:
    rng = random.Random(f"{kind} {count}")
    power = {"alike": 0, "random": 1, "skewed": 4}[kind]
    return {c: (rng.random() + 1e-9) ** power for c in range(count)}


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = what()
    return time.perf_counter() - start, result


def kinds() -> None:
    shares = draw("random", CLIENTS)
    options: dict[str, dict[str, Any]] = {
        "huffman": {},
        "shannon-fano": {},
        "balanced": {},
        "b-ary": {"branching": 4},
        "greedy": {"expires": draw("skewed", CLIENTS)},
        "star": {},
    }
    for kind, more in options.items():
        seconds, tree = timed(lambda k=kind, m=more: build(k, shares, probabilities=shares, **m))
        print(f"{kind:24}{seconds:8.2f} s   score {score(tree, shares):10.3f}   depth {tree.depth}")


def budget() -> None:
    for drawn in ("alike", "random", "skewed"):
        shares = draw(drawn, CLIENTS)
        least = score(build("huffman", shares, probabilities=shares), shares)
        for most in BUDGETS:
            seconds, (tree, proven) = timed(lambda s=shares, m=most: best_within(s, m, s))
            ratio = score(tree, shares) / least
            print(f"budget {most:5} {drawn:11}{seconds:8.2f} s   {ratio:8.3f} × Huffman   proven {proven}")


def rebuilding() -> None:
    for drawn in ("alike", "random", "skewed"):
        shares = draw(drawn, CLIENTS)
        tree: Tree = build("huffman", shares, probabilities=shares)
        trained = [s for s in tree.sets() if 17 not in s]
        inner = sum(len(s) > 1 for s in trained)
        left = {c: p for c, p in shares.items() if c != 17}
        seconds, _ = timed(lambda t=tree: keep(t, leave=[17]))
        print(f"keep, one leaves, {drawn:6}{seconds:8.2f} s")
        for reuse in (0.0, 0.001):
            ask = lambda s=left, t=trained, r=reuse: rebuild_proven(s, t, s, r)  # noqa: E731
            seconds, (new, proven) = timed(ask)
            used = len(set(trained).intersection(s for s in new.sets() if len(s) > 1))
            print(
                f"rebuild {reuse:<6} {drawn:9}{seconds:8.2f} s   {used} of {inner} reused   proven {proven}"
            )


def exact() -> None:
    """The most clients whose best tree is proven within a second, for budgets from few to many."""
    for drawn in ("alike", "random", "skewed"):
        count, slowest = 16, 0.0
        while count <= EXACT:
            shares = draw(drawn, count)
            runs = [
                timed(lambda s=shares, m=most: best_within(s, m, s))
                for most in range(1, count - 2, count // 8)
            ]
            if max(seconds for seconds, _ in runs) > 1 or not all(proven for _, (_, proven) in runs):
                break
            slowest = max(seconds for seconds, _ in runs)
            count += 2
        print(f"proven best, {drawn:11} up to {count - 2} clients; slowest budget {slowest:.2f} s")


if __name__ == "__main__":
    small.parse(
        argparse.ArgumentParser(description=__doc__), globals(), CLIENTS=100, BUDGETS=(10, 90), EXACT=16
    )
    print(f"{CLIENTS} clients")
    kinds()
    budget()
    rebuilding()
    exact()
