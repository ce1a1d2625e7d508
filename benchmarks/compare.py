"""What a comparison of methods takes, together and one after the other: ``python -m benchmarks.compare``.

Six methods on the built-in digits, 20 clients, three seeds (docs/results/which-method.toml). Prints one JSON
object; ``--out docs/results`` writes it into compare-time.json as well, of which docs tell. Fails
when a model differs, or when the comparison takes more than `LIMIT` seconds of the wall clock. Processor time
says more on a machine that does other things as well.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unknot.experiments import Experiment, compare, run
from unknot.experiments.contenders import USUAL
from unknot.experiments.seeds import parse_seeds

FILE = Path(__file__).resolve().parents[1] / "docs" / "results" / "which-method.toml"
LIMIT = 300
RECORD = "compare-time.json"


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, {
        "seconds": round(time.perf_counter() - wall, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seeds", type=parse_seeds, default=(0, 1, 2))
    parser.add_argument("--out", type=Path, help=f"a folder to write {RECORD} into")
    given = parser.parse_args()
    found, together = timed(lambda: compare(given.file, USUAL, given.seeds))
    runs = [Experiment.of(history.experiment) for history in found.histories.values()]
    alone, one_by_one = timed(lambda: [run(experiment) for experiment in runs])
    same = [
        one.model is not None and history.model is not None and one.model.equal(history.model)
        for one, history in zip(alone, found.histories.values(), strict=True)
    ]
    ratios = {name: round(one_by_one[name] / together[name], 2) for name in together}
    record = {
        "methods": list(found.methods),
        "seeds": list(found.seeds),
        "runs": len(runs),
        "together": together,
        "one_after_the_other": one_by_one,
        "times_as_fast": ratios,
        "same_models": all(same),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
    }
    text = json.dumps(record, indent=1)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / RECORD).write_text(text + "\n")
    print(text)
    return 0 if all(same) and together["seconds"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
