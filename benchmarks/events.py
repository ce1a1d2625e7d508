"""What the loop itself costs: ``python -m benchmarks.events``.

10,000 clients with two samples each and a small model, at an asynchronous pace, alone and in KNOT's
clusters. Prints microseconds a client event (a client sent out and taken back) outside training, and
fails when it is more than 1 ms.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks import small
from benchmarks.peers.common import Workload, make_data
from benchmarks.peers.unknot_run import federated
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.federation import Buffered, Clock, FedBuff, Federation, Method, Pareto
from unknot.models import build
from unknot.unlearn import KNOT, RFS

MANY = Workload("mlp", clients=10_000, samples=2, per_round=200, batch=2, rounds=20)
SMALL = Workload("mlp", clients=100, samples=2, per_round=10, batch=2, rounds=3)
METHODS: dict[str, Method] = {"fedbuff": RFS(), "knot": KNOT(clusters=10, by="random")}
LIMIT = 1000.0


def main() -> None:
    small.parse(argparse.ArgumentParser(description=__doc__), globals(), MANY=SMALL, LIMIT=1e9)
    data = federated(*make_data(MANY))
    worst = 0.0
    for name, method in METHODS.items():
        model = build("mlp", tuple(data.train.x.shape[1:]), classes=10, hidden=(8,))
        fed = Federation(
            StackedEngine(model),
            Weights.of(model),
            data,
            method,
            Recipe(SGD(0.01), batch_size=2),
            pace=Buffered(MANY.clients // 10, MANY.clients // 20, 20),
            aggregate=FedBuff(),
            clock=Clock(Pareto()),
            evaluate_every=0,
        )
        history = fed.run(MANY.rounds)
        events = sum(len(record.clients) for record in history.rounds)
        outside = history.seconds["total"] - history.seconds["train"] - history.seconds["evaluate"]
        each = outside / events * 1e6
        worst = max(worst, each)
        line = {"method": name, "events": events, "microseconds_an_event": round(each, 1)}
        line["seconds"] = {k: round(v, 2) for k, v in history.seconds.items()}
        print(json.dumps(line))
    if worst > LIMIT:
        sys.exit(f"the loop took {worst:.0f} µs a client event; the limit is {LIMIT:.0f}")


if __name__ == "__main__":
    main()
