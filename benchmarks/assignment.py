"""How long KNOT's assignment takes: ``python -m benchmarks.assignment [--json]``. One thread; a minute.

Times are drawn from a Pareto distribution (α = 1, capped at 100 times the least), disparities from a
uniform one or a beta one (2, 6: most clients are typical). Ratings and assignment count together. The
exit status is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np

from benchmarks import small
from unknot.topology import Assignment, Bounds, assign, ratings

LIMITS = {(100, 5): 0.05, (250, 5): 0.05, (10_000, 10): 2.0, (100_000, 10): 20.0}  # seconds
PEAK = 2.0  # GB of memory, the interpreter and torch among them
REPEATS = {100: 5, 250: 5}  # the quickest counts: milliseconds are soon disturbed


def cases(clients: int, clusters: int) -> dict[str, dict[str, int]]:
    even = -(-clients // clusters)
    return {
        "default": {},
        "tight": {"c3": even},
        "c1 = 2": {"c1": 2, "c2": even + even // 2, "c3": 2 * even},  # half of the clients are in two
    }


def measure(clients: int, clusters: int, drawn: str, name: str, options: dict[str, int]) -> dict[str, object]:
    rng = np.random.default_rng([clients, clusters])
    times = 20 * np.minimum(rng.pareto(1.0, clients) + 1, 100)
    disparities = rng.random(clients) if drawn == "uniform" else rng.beta(2, 6, clients)
    seconds = []
    for _ in range(REPEATS.get(clients, 1)):
        start = time.perf_counter()
        rated = ratings(times, disparities, clusters)
        middle = time.perf_counter()
        chosen = assign(rated, **options)
        seconds.append((time.perf_counter() - start, middle - start))
    total, rating = min(seconds)
    found = Assignment(rated, chosen)
    sizes = [len(members) for members in found.clusters]
    bounds = Bounds.of(clients, clusters, **options)
    assert all(bounds.c2 <= size <= bounds.c3 for size in sizes)
    return {
        "clients": clients,
        "clusters": clusters,
        "disparities": drawn,
        "bounds": name,
        "seconds": round(total, 4),
        "of them ratings": round(rating, 4),
        "limit": LIMITS[clients, clusters],
        "worst": max(found.levels),
        "sizes": [min(sizes), max(sizes)],
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    given = small.parse(parser, globals(), LIMITS={(100, 5): 10.0})
    rows = [
        measure(clients, clusters, drawn, name, options)
        for clients, clusters in LIMITS
        for drawn in ("uniform", "beta")
        for name, options in cases(clients, clusters).items()
    ]
    missed = [row for row in rows if row["seconds"] > row["limit"] or row["peak GB"] > PEAK]  # type: ignore[operator]
    if given.json:
        print(json.dumps({"rows": rows, "missed": missed}))
    else:
        print("".join(f"{key:>16}" for key in rows[0]))
        for row in rows:
            print("".join(f"{value!s:>16}" for value in row.values()) + ("  MISSED" if row in missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
