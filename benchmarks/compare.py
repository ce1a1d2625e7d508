"""What a comparison of methods takes, together and one after the other: ``python -m benchmarks.compare``.

Six methods on the built-in digits, 20 clients, three seeds (docs/results/which-method.toml); and, as
``trained_alike``, four methods with a LeNet-5 that train alike until one of twenty clients leaves. Prints one
JSON object; ``--out docs/results`` writes it into compare-time.json as well, of which docs tell. Fails when a
model differs, or when the first takes more than `LIMIT` seconds by the clock together. Processor time says
more on a machine that does other things as well.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import small
from unknot.experiments import Experiment, compare, run
from unknot.experiments.contenders import USUAL
from unknot.experiments.seeds import parse_seeds

FILE = Path(__file__).resolve().parents[1] / "docs" / "results" / "which-method.toml"
ALIKE = {
    "data": {"name": "digits", "partition": "iid", "clients": 20},
    "model": {"name": "lenet5"},
    "train": {"lr": 0.05, "epochs": 5, "batch_size": 32},
    "federation": {"rounds": 8},
    "request": [{"erase": 3, "round": 6}],
}
ALIKE_METHODS = ("rfs", "federaser", {"name": "federaser", "start": "remaining"}, "pga")
SMALL = {
    "data": {"name": "digits", "partition": "iid", "clients": 5, "samples": 20},
    "federation": {"rounds": 3},
    "request": [{"erase": 3, "round": 2}],
}
LIMIT = 300
RECORD = "compare-time.json"


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, {
        "seconds": round(time.perf_counter() - wall, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


def measured(file: Path | dict[str, Any], methods: Sequence[Any], seeds: Sequence[int]) -> dict[str, Any]:
    """What a comparison takes, together and one after the other."""
    found, together = timed(lambda: compare(file, methods, seeds))
    runs = [Experiment.of(history.experiment) for history in found.histories.values()]
    alone, one_by_one = timed(lambda: [run(experiment) for experiment in runs])
    same = [
        one.model is not None and history.model is not None and one.model.equal(history.model)
        for one, history in zip(alone, found.histories.values(), strict=True)
    ]
    return {
        "methods": list(found.methods),
        "seeds": list(found.seeds),
        "runs": len(runs),
        "together": together,
        "one_after_the_other": one_by_one,
        "times_as_fast": {name: round(one_by_one[name] / together[name], 2) for name in together},
        "same_models": all(same),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seeds", type=parse_seeds, default=(0, 1, 2))
    parser.add_argument("--out", type=Path, help=f"a folder to write {RECORD} into")
    given = small.parse(parser, globals(), file=SMALL, seeds=(0,), ALIKE=SMALL)
    usual, alike = measured(given.file, USUAL, given.seeds), measured(ALIKE, ALIKE_METHODS, given.seeds[:1])
    record = {
        **usual,
        "trained_alike": alike,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
    }
    text = json.dumps(record, indent=1)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / RECORD).write_text(text + "\n")
    print(text)
    return 0 if usual["same_models"] and alike["same_models"] and usual["together"]["seconds"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
