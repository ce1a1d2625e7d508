"""Audits of models of which the truth is known: false alarms, power, coverage of intervals.

``python -m benchmarks.audits [--draws 10] [--processes 2] [--parts level,methods,intervals,time]
[--work FOLDER] [--out FOLDER]``. An MLP on the built-in digits, client 2 erased. What is measured is kept
in the work folder, so that a run that was broken off goes on; a part that is done is written to audits.json
in the out folder, beside those that are there, and the page audits.md is drawn from it. All parts take about
5 core hours.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import small
from benchmarks.audits import coverage, level, methods, page, truth
from benchmarks.audits.spread import spread
from benchmarks.audits.truth import by_heart
from unknot.experiments.case import Thorough

PARTS: dict[str, Any] = {"level": level, "methods": methods, "intervals": coverage}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audits")
    parser.add_argument("--draws", type=int, default=10, help="draws of the data")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--parts", default="level,methods,intervals,time", help="none: only the page")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "unknot-audits")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = small.parse(parser, globals(), parts="level,methods,intervals", draws=1, processes=0)
    if given.small:
        given.work = given.out = Path(tempfile.mkdtemp(prefix="unknot-audits-"))
        truth.OTHERS, methods.ASKED = 60, Thorough(others=60)
        level.NULLS, level.EACH, level.SIZES = 1, 2, {100: 2}
        methods.METHODS, methods.SERVED, methods.WRONGLY = {"rfs": methods.METHODS["rfs"]}, 1, 1
        methods.BEFORE, methods.AFTER, methods.SAMPLES = 2, 2, 40
        coverage.TIMES = 10
    file = given.out / "audits.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name in given.parts.split(","):
        started = time.perf_counter()
        if name == "time":
            found[name] = {"seconds": _default_audit(), "machine": _machine()}
        elif name != "none":
            part = PARTS[name]
            given.work.mkdir(parents=True, exist_ok=True)
            rows = spread(part, given.draws, given.processes, given.work / f"{name}.jsonl")
            found[name] = {**part.summary(rows), "machine": _machine(), "draws": given.draws}
        sys.stderr.write(f"{name}: {time.perf_counter() - started:.0f} s\n")
        file.write_text(json.dumps(found, indent=1) + "\n")
    page.write(found, given.out)


def _default_audit() -> float:
    """The audit that ``unknot audit`` makes by default, of the experiment in docs/audits.md."""
    from unknot.experiments.audited import audit

    started = time.perf_counter()
    audit(by_heart("federaser", 0, samples=200, before=40, after=50))
    return time.perf_counter() - started


def _machine() -> str:
    return f"{platform.machine()}, torch {torch.__version__}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
