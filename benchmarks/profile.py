"""Where W1's time goes on a CPU, operation by operation: ``python -m benchmarks.profile``.

One stack of W1 (LeNet-5, five clients, as each of two workers has it) is trained by one thread in this
process: with a clock around every operation, without one, and by grouped convolutions, in turns with a large
product that shows the processor's peak. All in processor time, which other load has less of a part in. Prints
the table; ``--docs docs`` puts it into benchmarks.md and results/profile.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import parts, small
from benchmarks.peers.common import WORKLOADS, make_data, make_model
from benchmarks.peers.unknot_run import federated
from benchmarks.run import Record, machine
from unknot.core.jobs import Job
from unknot.core.keys import Key
from unknot.core.lineage import Unit
from unknot.core.training import SGD, Recipe
from unknot.core.weights import Weights
from unknot.engine import StackedEngine
from unknot.engine.ways import fused_images
from unknot.engine.ways.lessons import Lesson
from unknot.engine.ways.shelf import Shelf
from unknot.engine.ways.tiles import Tiling, tilings_of
from unknot.models import build

CLIENTS = 5
SIDE = 1024  # of the product that shows the peak
PRODUCTS = ("bmm", "baddbmm", "baddbmm_")
POOLS = ("amax", "sub", "threshold_backward", "relu_")
VIEWS = (
    "view as_strided slice transpose select unsqueeze permute expand unbind split _unsafe_view detach".split()  # noqa: SIM905
)
NOTE = """\
By `python -m benchmarks.profile --docs docs` on {date}: one step of a stack of {clients} clients, of which
each of two workers takes {steps} a round, in ms of processor time; the fastest quarter of {runs} runs, on a
machine with other load. The peak is that of a product of {side}×{side} matrices by one thread,
{peak:.0f} GFLOP/s."""
READING = """\
A step needs {needed:.2f} GFLOP, which would take {floor:.1f} ms at the peak; it takes {step:.1f}, and by
grouped convolutions (oneDNN's) {grouped:.1f}. What holds it back: the outputs of a pool's tile are computed
together, in {done:.2f} GFLOP, since windows of single outputs would be 2.8 times as many numbers to copy; the
first convolution is too narrow for its products to come to the peak; and what is copied, compared and added
up between the products waits for memory."""


class Clock(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within: how long each operation takes, by what it is a part of."""

    def __init__(self, part_of: Callable[[str, Sequence[Tensor]], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.part_of = part_of
        self.seconds: dict[str, float] = {}
        self.operations: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        started = time.thread_time()
        result = func(*args, **(kwargs or {}))
        seconds = time.thread_time() - started
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            tensors = [value for value in args if isinstance(value, Tensor)]
            part = self.part_of(name, tensors)
            self.seconds[part] = self.seconds.get(part, 0.0) + seconds
            self.operations[part] = self.operations.get(part, 0) + _operations(name, tensors)
        return result


def _operations(name: str, tensors: Sequence[Tensor]) -> int:
    """What a product multiplies and adds; others count as none."""
    if name not in PRODUCTS:
        return 0
    a, b = tensors[-2:]
    return 2 * prod(a.shape) * b.shape[2]


def named(tilings: Sequence[Tiling], batch: int) -> Callable[[str, Sequence[Tensor]], str]:
    """Which line of the table an operation belongs to, by its name and its sizes."""
    products = {}
    for number, t in enumerate(tilings, 1):
        pixels = prod(t.window) * t.channels
        columns, outputs, spots = (
            pixels + (t.stage.bias is not None),
            prod(t.tile) * t.outputs,
            prod(t.tiles) * batch,
        )
        products[outputs, columns, spots] = f"convolution {number}, forward"
        products[columns, spots, outputs] = f"convolution {number}, gradient of the kernels"
        products[pixels, outputs, spots] = f"convolution {number}, gradient of the images"

    def part_of(name: str, tensors: Sequence[Tensor]) -> str:
        if name in PRODUCTS:
            a, b = tensors[-2:]
            return products.get((a.shape[1], a.shape[2], b.shape[2]), "linear layers")
        sizes = tensors[0].dim() if tensors else 0
        if name in POOLS:
            return "pools and ReLU: largest of a tile, and whose the error is"
        if (name, sizes) == ("copy_", 8):
            return "windows copied side by side"
        if (name, sizes) in (("add_", 7), ("zero_", 7)):
            return "gradients of windows added up"
        if (name, sizes) in (("copy_", 5), ("index_select", 4)):
            return "images gathered and laid in blocks"
        return "softmax, steps of the kernels, and other small operations"

    return part_of


def needed(model: torch.nn.Module, samples: Tensor) -> int:
    """The operations of a step that no way can do without: three products a layer, two in the first."""
    counts: list[int] = []

    def count(module: Any, inputs: Any, output: Tensor) -> None:
        counts.append(2 * output.numel() * prod(module.weight.shape[1:]))

    layers = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        model(samples)
    for hook in hooks:
        hook.remove()
    return 3 * sum(counts) - counts[0]


def quick(values: Sequence[float]) -> float:
    """The lower quartile: other load only ever adds."""
    return statistics.quantiles(values, n=4)[0] if len(values) > 1 else values[0]


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


def measure(runs: int) -> Record:
    """All that the table says."""
    torch.set_num_threads(1)
    workload = WORKLOADS["W1"]
    x, y = make_data(workload)
    data = federated(x[:CLIENTS], y[:CLIENTS])
    model = build(workload.model, tuple(data.train.x.shape[1:]), classes=10)
    model.load_state_dict(make_model(workload).state_dict())
    recipe = Recipe(SGD(workload.lr), batch_size=workload.batch)
    jobs = [Job(Unit(c), Weights.of(model), Key.root(c), recipe) for c in range(CLIENTS)]
    lessons = [Lesson.of(job, job.shard(data)) for job in jobs]
    engine, shelf = StackedEngine(model, threads=1), Shelf(2**31)
    chain = engine.traits.chain
    assert chain is not None
    tilings = tilings_of(chain.stages, engine.layout, data.train.x.shape[1:], workload.batch, 2**31)
    assert tilings is not None

    def train() -> None:
        fused_images.train_fused_images(chain, lessons, data.train, engine.setting, Event(), shelf, 2**31)

    a, b = torch.randn(2, SIDE, SIDE)
    train()
    steps = lessons[0].steps
    spent, grouped, products, clocks = list[float](), list[float](), list[float](), list[Clock]()
    for _ in range(runs):
        clock = Clock(named(tilings, workload.batch))
        spent.append(seconds_of(train))
        with clock:
            train()
        clocks.append(clock)
        with patch.object(fused_images, "tilings_of", lambda *sizes: None):
            grouped.append(seconds_of(train))
        products.append(seconds_of(lambda: torch.mm(a, b)))
    lines = [
        {
            "part": part,
            "ms": 1e3 * quick([clock.seconds[part] for clock in clocks]) / steps,
            "gflop": 1e-9 * clocks[0].operations[part] / steps,
        }
        for part in clocks[0].seconds
    ]
    return {
        "machine": machine(),
        "clients": CLIENTS,
        "steps": steps,
        "runs": runs,
        "peak_gflops": 2e-9 * SIDE**3 / min(products),
        "step_ms": 1e3 * quick(spent) / steps,
        "grouped_ms": 1e3 * quick(grouped) / steps,
        "needed_gflop": 1e-9 * needed(model, data.train.x[: workload.batch]) * CLIENTS,
        "lines": sorted(lines, key=lambda line: -line["ms"]),
    }


def section(record: Record) -> str:
    """The table, and what it shows."""
    lines, peak, step = record["lines"], record["peak_gflops"], record["step_ms"]
    rest = step - sum(line["ms"] for line in lines)
    text = [
        "## Where W1's time goes",
        "",
        NOTE.format(date=record["machine"]["date"], side=SIDE, peak=peak, **record),
        "",
        "| part of a step | ms | share | GFLOP | GFLOP/s | of the peak |",
        "|---" * 6 + "|",
    ]
    for line in lines:
        speed = 1e3 * line["gflop"] / line["ms"]
        cells = (
            (f"{line['gflop']:.3f}", f"{speed:.0f}", f"{100 * speed / peak:.0f} %")
            if line["gflop"]
            else ("",) * 3
        )
        text.append(
            f"| {line['part']} | {line['ms']:.2f} | {100 * line['ms'] / step:.0f} % | "
            + " | ".join(cells)
            + " |"
        )
    text += [
        f"| Python, allocation, the clients' orders | {rest:.2f} | {100 * rest / step:.0f} % | | | |",
        "",
        READING.format(
            needed=record["needed_gflop"],
            floor=1e3 * record["needed_gflop"] / peak,
            step=step,
            grouped=record["grouped_ms"],
            done=sum(line["gflop"] for line in lines),
        ),
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="epochs that are timed (20)")
    parser.add_argument(
        "--docs", type=Path, help="where benchmarks.md and results/profile.json are; left out: nowhere"
    )
    options = small.parse(parser, globals(), runs=1, CLIENTS=2, SIDE=64)
    record = measure(options.runs)
    print(section(record))
    if options.docs:
        (options.docs / "results" / "profile.json").write_text(json.dumps(record, indent=1) + "\n")
        parts.write(options.docs / "benchmarks.md", profile=section(record))


if __name__ == "__main__":
    main()
