"""Adapters over a frozen language model on a GPU: ``python -m benchmarks.language``.

An epoch of 497 texts of 56 tokens a client (batches of 16, AdamW) for cohorts of adapters (LoRA of rank 8 on
queries and values) over a base of SmolLM2-135M's shape in bfloat16, with drawn weights, so that nothing need
be carried along. Beside it one client after the other in plain PyTorch with PEFT's arithmetic, where the
GPU's time goes, and the floor of operations. Prints one JSON object. ``--docs`` measures nothing: it writes
what ``results/language.json`` there has to tell into the page on GPUs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import unknot
from benchmarks import parts, small
from benchmarks.gpu_cohorts import busy, fresh, make_jobs, timed
from unknot.core.data import FederatedData, Samples, Shard
from unknot.core.training import AdamW, Recipe
from unknot.engine import LoopEngine, StackedEngine
from unknot.models.llama import Llama, LlamaConfig

SMOLLM2 = LlamaConfig(49152, 576, 30, 9, 3, 1536, 64, rope_base=100000.0, context=8192)
SAMPLES, TOKENS, CLASSES, PAD = 497, 56, 8, 2
RECIPE = Recipe(AdamW(0.001, weight_decay=0.0), batch_size=16)
COHORTS = (1, 8, 32, 64)
GOALS = {8: 0.6, 32: 2.0}
WHAT = {1: "one client", 8: "8 clients", 32: "MMT's 32 jobs for 8 clients", 64: "64 clients"}
PEAK = 990e12  # operations in bfloat16 a second, by the H200's data sheet

PAGE = """\
`python -m benchmarks.language` on one {gpu}, PyTorch {torch} ([record](results/language.json)): an epoch of
{samples} texts of {tokens} tokens for every client, batches of 16, AdamW, LoRA of rank 8 on queries and
values, over a base of SmolLM2-135M's shape in bfloat16 (30 layers, drawn weights). Seconds:

| | taken | goal | GPU at work | one after the other | times as fast | floor | memory |
|---|---|---|---|---|---|---|---|
{rows}

*One after the other* is plain PyTorch with PEFT's arithmetic, as the loop engine runs it, on the same GPU in
the same run, measured with one client and multiplied. The floor is the operations of one pass through the
base and back at the GPU's peak in bfloat16. The first epoch, which compiles kernels, tries the numbers of
rows and captures the step, took {first:.0f} s with {cohort} clients.{stacks} Where the time of the GPU goes
with 8, in milliseconds:

{kernels}
"""


STACKS = (
    " By trial, stacks of {refused} rows would have had other bits, so jobs went in smaller ones, one after "
    "the other: the memory of the largest cohort is that of its largest stack."
)


def make_model(config: LlamaConfig = SMOLLM2) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Llama(config).to(torch.bfloat16).answering(range(100, 100 + CLASSES), PAD)
    return unknot.lora(model, 8, targets=["q_proj", "v_proj"])


def make_data(clients: int, vocabulary: int = SMOLLM2.vocabulary, samples: int = SAMPLES) -> FederatedData:
    drawn = np.random.default_rng(0)
    x = torch.from_numpy(drawn.integers(PAD + 1, vocabulary, (clients * samples, TOKENS)))
    texts = Samples(x, torch.from_numpy(drawn.integers(0, CLASSES, len(x))), CLASSES)
    shards = {c: Shard.of(np.arange(c * samples, (c + 1) * samples)) for c in range(clients)}
    return FederatedData(texts, shards, texts.subset(np.arange(min(64, len(texts)))))


def floor(model: nn.Module, clients: int, samples: int = SAMPLES) -> float:
    """Seconds: every number of the base is used twice, forward and backward, for each token."""
    base = sum(p.numel() for n, p in model.named_parameters() if not p.requires_grad and "embed" not in n)
    return 4 * base * samples * TOKENS * clients / PEAK


def cohort(model: nn.Module, clients: int, device: str, repeats: int) -> dict[str, Any]:
    fresh(device)
    data, engine = make_data(clients), StackedEngine(model, device=device)
    rounds = iter([make_jobs(model, clients, device, number, RECIPE) for number in range(repeats + 3)])

    def work() -> object:
        return engine.train(next(rounds), data)

    first = timed(work, 1, device)[0]
    timed(work, 1, device)
    seconds = timed(work, repeats, device)
    found: dict[str, Any] = {
        "seconds": round(statistics.median(seconds), 3),
        "seconds_least": round(min(seconds), 3),
        "first": round(first, 1),
        "goal": GOALS.get(clients),
        "floor": round(floor(model, clients), 3),
        "path": engine.describe()["path"],
        "rows_refused": engine.describe()["rows_refused"],
    }
    found["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    found["gpu_ms"] = busy(work)
    return found


def alone(model: nn.Module, device: str) -> float:
    """Seconds of one client in plain PyTorch."""
    data, loop = make_data(1), LoopEngine(model, device=device)
    jobs = make_jobs(model, 1, device, 0, RECIPE)
    return min(timed(lambda: loop.train(jobs, data), 2, device))


def measured(device: str, cohorts: Sequence[int], repeats: int) -> dict[str, Any]:
    model = make_model()
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "samples": SAMPLES,
        "tokens": TOKENS,
        "alone": round(alone(model, device), 2),
        "cohorts": {str(many): cohort(model, many, device, repeats) for many in cohorts},
    }


def page(record: dict[str, Any]) -> str:
    """What the record has to tell."""
    rows = []
    for many, cell in record["cohorts"].items():
        beside, at_work = record["alone"] * int(many), cell["gpu_ms"].get("busy", 0) / 1e3
        goal = "" if cell["goal"] is None else f"{cell['goal']:.1f}"
        missed = " (missed)" if cell["goal"] is not None and cell["seconds"] > cell["goal"] else ""
        rows.append(
            f"| {WHAT.get(int(many), f'{many} clients')} | {cell['seconds']:.2f} | {goal}{missed} | "
            f"{at_work:.2f} | {beside:.1f} | {beside / cell['seconds']:.0f} | {cell['floor']:.2f} | "
            f"{cell['memory_gb']:.1f} GB |"
        )
    told = record["cohorts"].get("8") or next(iter(record["cohorts"].values()))
    largest = [(name, ms) for name, ms in told["gpu_ms"].items() if name != "busy"]
    kernels = "\n".join(["| | |", "|---|---|", *(f"| `{name}` | {ms:.0f} |" for name, ms in largest)])
    cohorts = record["cohorts"]
    most = max(cohorts, key=lambda many: cohorts[many]["first"])
    refused = sorted({rows for cell in cohorts.values() for rows in cell["rows_refused"]})
    stacks = STACKS.format(refused=", ".join(map(str, refused))) if refused else ""
    given = {key: record[key] for key in ("gpu", "torch", "samples", "tokens")} | {"stacks": stacks}
    return PAGE.format(
        rows="\n".join(rows), kernels=kernels, first=cohorts[most]["first"], cohort=most, **given
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cohorts", type=int, nargs="+", default=COHORTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--docs", type=Path, help="write docs/results/language.json into the page, and end")
    given = small.parse(parser, globals(), cohorts=[2], repeats=1)
    if given.docs is not None:
        record = json.loads((given.docs / "results" / "language.json").read_text(encoding="utf-8"))
        parts.write(given.docs / "gpu.md", language=page(record))
        return
    if not torch.cuda.is_available():
        parser.exit(2, "there is no GPU here\n")
    print(json.dumps(measured(given.device, given.cohorts, given.repeats), indent=1))


if __name__ == "__main__":
    main()
