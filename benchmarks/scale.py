"""How a federation of 10,000 clients starts: ``python -m benchmarks.scale``.

A synchronous federation with 100 clients a round and two samples a client; prints one JSON line and
fails when the first round is not done within 10 s of the process's start, or memory exceeds 4 GB.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks import small
from benchmarks.peers.common import Workload, make_data, peak_memory, since_start
from benchmarks.peers.unknot_run import federated, federation

MANY = Workload("mlp", clients=10_000, samples=2, per_round=100, batch=20, rounds=5)
SMALL = Workload("mlp", clients=100, samples=2, per_round=10, batch=20, rounds=2)
SECONDS, MEGABYTES = 10.0, 4000.0


def main() -> None:
    small.parse(argparse.ArgumentParser(description=__doc__), globals(), MANY=SMALL, SECONDS=1e9)
    fed = federation(MANY, federated(*make_data(MANY)), [])
    ready = since_start()
    fed.run(rounds=1)
    first_round = since_start()
    started = time.perf_counter()
    fed.run(rounds=MANY.rounds)
    line = {
        "clients": MANY.clients,
        "per_round": MANY.per_round,
        "federation_ready_seconds": round(ready, 2),
        "first_round_done_seconds": round(first_round, 2),
        "seconds_per_round": round((time.perf_counter() - started) / MANY.rounds, 4),
        "peak_rss_mb": round(peak_memory() * 1.048576, 1),
    }
    print(json.dumps(line))
    if first_round > SECONDS or line["peak_rss_mb"] > MEGABYTES:
        sys.exit(f"limits: {SECONDS:g} s to the end of the first round, {MEGABYTES:g} MB")


if __name__ == "__main__":
    main()
