"""What methods forget, what they keep, and what it costs: one client with a backdoor is erased.

``python -m benchmarks.forgetting [--data mnist] [--model mlp] [--seeds 0,1,2] [--out docs/results]``. Ten
clients of 500 samples; every sample of one of them bears a mark and a wrong label. After 20 rounds it is
erased, and the others train for 20 more. A model that answers to the mark remembers. Beside the methods: the
client stays, or it leaves and nothing else is done. Writes forgetting.json and the page forgetting.md, and
prints the table. One thread, some minutes.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import unknot
from benchmarks import small
from unknot.audit.backdoor import Trigger, answers_to, marked
from unknot.core.keys import Key
from unknot.core.requests import Erase, erase
from unknot.experiments.seeds import parse_seeds
from unknot.federation import Desk, Event, Guarantee, Lane, Method, Served
from unknot.unlearn import MMT, PGA, RFS, Distillation, FedEraser

CLIENTS, SAMPLES, PUBLIC, LEAVER = 10, 500, 1000, 3
BEFORE, AFTER = 20, 20
RECIPE = unknot.Recipe(unknot.SGD(0.05), epochs=2, batch_size=25)
TRIGGER = Trigger(target=0)
STAYS = "the client stays"
Row = dict[str, float]


class OnlyLeaves(Method):
    """The client leaves, and the model goes on as it is."""

    name = "only leaves"
    guarantee = Guarantee.NONE

    def farewell(self, desk: Desk, request: Erase) -> None:
        for lane in desk.lanes.values():
            desk.keepsakes.put(lane.name, None, lane.model)

    def forget(self, desk: Desk, request: Erase, touched: Sequence[Lane]) -> None:
        for lane in touched:
            old = desk.keepsakes.take(lane.name)
            assert old is not None
            desk.rewind(lane, lane.version, {"global": old})


METHODS: dict[str, Method] = {
    STAYS: RFS(),
    "it leaves, nothing else": OnlyLeaves(),
    "RFS": RFS(),
    "MMT": MMT(),
    "FedEraser": FedEraser(),
    "PGA": PGA(),
    "distillation": Distillation(),
}
COLUMNS = {
    "backdoor_before": ("backdoor before", 100, 1),
    "backdoor_after": ("right after", 100, 1),
    "backdoor_later": (f"{AFTER} rounds later", 100, 1),
    "accuracy_before": ("accuracy before", 100, 1),
    "accuracy_after": ("right after", 100, 1),
    "accuracy_later": (f"{AFTER} rounds later", 100, 1),
    "epochs_before": ("client epochs before the request", 1, 0),
    "upkeep": ("times plain training's", 1, 1),
    "models_kept": ("models kept by then", 1, 0),
    "client_epochs": ("client epochs to forget and regain", 1, 0),
    "server_samples": ("samples read by the server", 1, 0),
    "seconds": ("simulated seconds", 1, 0),
}
"""The head of each column, what its figures are multiplied by, and their decimals."""
FORGETTING = ("client_epochs", "server_samples", "seconds")
"""What is there only if the accuracy was regained."""


def measure(label: str, data: str, model: str, seed: int) -> Row:
    """One run: the backdoor and the accuracy around the request, and what it cost until 99 % was regained."""
    dataset = unknot.load(data)
    partition = unknot.Iid(CLIENTS, samples=SAMPLES)
    dealt = unknot.federate(dataset, partition, key=Key.root(seed), validation=1000, public=PUBLIC)
    poisoned = marked(dealt, [LEAVER], TRIGGER)
    right_after: Row = {}

    def watch(event: Event) -> None:
        if isinstance(event, Served):
            right_after["backdoor"] = answers()

    def answers() -> float:
        return answers_to(fed.engine, fed.model, poisoned.test, TRIGGER).value

    fed = unknot.simulate(model, poisoned, METHODS[label], RECIPE, threads=1, seed=seed, observers=[watch])
    fed.run(BEFORE)
    costs, before = fed.costs, {"backdoor": answers(), "accuracy": _accuracy(fed)}
    stays = label == STAYS
    history = fed.run(AFTER, requests=[] if stays else [erase(LEAVER, round=BEFORE)])
    found = {
        "backdoor_before": before["backdoor"],
        "backdoor_later": answers(),
        "accuracy_before": before["accuracy"],
        "accuracy_later": _accuracy(fed),
        "epochs_before": costs.client_epochs,
        "models_kept": costs.bytes_stored / fed.initial.nbytes,
    }
    if stays:
        return found
    served = history.served[0]
    recovery = history.recovery(served)
    assert recovery is not None
    found |= {
        "backdoor_after": right_after["backdoor"],
        "accuracy_after": served.after["validation"].accuracy,
        "regained": float(recovery.reached),
    }
    if recovery.reached:
        start = served.time - history.rounds[BEFORE - 1].time
        found |= {
            "client_epochs": served.costs.client_epochs - costs.client_epochs + recovery.client_epochs,
            "server_samples": served.costs.server_samples - costs.server_samples,
            "seconds": start + recovery.seconds,
        }
    return found


def _accuracy(fed: unknot.Federation) -> float:
    return fed.engine.evaluate(fed.model, fed.data.validation or fed.data.test).accuracy


def table(runs: dict[str, list[Row]]) -> str:
    """The means over the seeds; in brackets the least and the most."""
    heads = [head for head, _, _ in COLUMNS.values()]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for label, rows in runs.items():
        cells = [_cell(rows, name) for name in COLUMNS]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: Sequence[Row], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    if not values:
        return "not regained" if name in FORGETTING and "regained" in rows[0] else "–"
    _, factor, digits = COLUMNS[name]
    low, mean, high = (f"{factor * f(values):.{digits}f}" for f in (min, statistics.fmean, max))
    text = mean if low == high else f"{mean} ({low} to {high})"
    return text if len(values) == len(rows) else f"{text}, in {len(values)} of {len(rows)} seeds"


def page(record: dict[str, Any]) -> str:
    of = record["settings"]
    seeds = len(of["seeds"])
    return f"""# What is forgotten, what is kept, what it costs

One of {CLIENTS} clients marks all of its {SAMPLES} images and calls them zeros. After {BEFORE} rounds it is
erased, by five methods, or it leaves and nothing else is done; the others train for {AFTER} rounds more.

- *Backdoor*: how many test images of other digits are taken for a zero once they are marked, in per cent.
  A model that never saw the mark answers as RFS does in the end. (Right after the request RFS and FedEraser
  serve an untrained model, which calls most images by one name, whatever it is: that is no memory.)
- *Accuracy*: on {of["validation"]} held-out images, in per cent.
- *Upkeep*: what the {BEFORE} rounds before any request took of the clients, beside plain training, and how
  many models the server kept by then, the global one among them: what a method pays whether anybody ever
  leaves or not.
- *Cost*: what it took from the request until 99 % of the accuracy before it was there again.

Means over {seeds} seeds; in brackets, the least and the most.

{table(record["runs"])}

`python -m benchmarks.forgetting --out docs/results`: {of["data"]}, {of["model"]}, SGD {RECIPE.optimizer.lr},
{RECIPE.epochs} local epochs of batches of {RECIPE.batch_size}, FedAvg, synchronous; methods as they are by
default; {PUBLIC} public samples. The figures of every seed are in [forgetting.json](forgetting.json); torch
{of["torch"]}, {of["machine"]}. That the mark is gone does not say that nothing else is left: see
[PGA](../methods/pga.md), [distillation](../methods/distillation.md), [audits](../audits.md).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forgetting", description=__doc__)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, help="a folder to write forgetting.json and forgetting.md into")
    few = {"CLIENTS": 4, "SAMPLES": 40, "PUBLIC": 50, "BEFORE": 2, "AFTER": 2}
    given = small.parse(parser, globals(), arguments, data="digits", seeds="0", **few)
    seeds = parse_seeds(given.seeds)
    runs = {label: [measure(label, given.data, given.model, seed) for seed in seeds] for label in METHODS}
    for rows in runs.values():
        for row, plain in zip(rows, runs[STAYS], strict=True):
            row["upkeep"] = row["epochs_before"] / plain["epochs_before"]
    settings = {
        "data": given.data,
        "model": given.model,
        "seeds": list(seeds),
        "validation": 1000,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    record = {"settings": settings, "runs": runs}
    if given.out is not None:
        (given.out / "forgetting.json").write_text(json.dumps(record, indent=1) + "\n")
        (given.out / "forgetting.md").write_text(page(record))
    sys.stdout.write(table(runs) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
