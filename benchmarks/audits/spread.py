"""Tasks spread over processes, each of one thread; what they give is kept in a file, line by line."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch


def spread(part: Any, draws: int, processes: int, file: Path) -> list[Any]:
    """What each task gives, the longest first, one thread each; those in the file are done.

    Without processes of their own, in this one.
    """
    kept = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {json.dumps(line["task"]): line["row"] for line in kept}
    tasks = {json.dumps(asdict(task)): task for task in part.tasks(draws)}
    left = [(name, part.__name__, task) for name, task in tasks.items() if name not in done]
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack, file.open("a") as out:
        found = map(_one, left)
        if processes:
            pool = context.Pool(processes, initializer=torch.set_num_threads, initargs=(1,))
            found = stack.enter_context(pool).imap_unordered(_one, left)
        for name, row in found:
            out.write(json.dumps({"task": json.loads(name), "row": row}) + "\n")
            out.flush()
            done[name] = row
            sys.stderr.write(f"\r{len(done)} of {len(tasks)}")
    sys.stderr.write("\n")
    return [done[name] for name in tasks]


def _one(job: tuple[str, str, Any]) -> tuple[str, Any]:
    name, module, task = job
    return name, importlib.import_module(module).measure(task)
