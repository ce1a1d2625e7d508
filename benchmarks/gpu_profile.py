"""Where an epoch's time goes on a GPU: read off a trace by PyTorch's profiler.

The same seconds are told twice: what the GPU did (parts of the work, or nothing), and what the CPU did
meanwhile (launches, copies, waiting, Python). Each adds up to the whole.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

AT_WORK = {
    "data": "orders and reads of batches, starts put in",
    "convolution": "convolutions",
    "linear": "linear layers, their step with them",
    "step": "the rest of the steps: picking reads, sums of losses, steps of convolutions",
    "results": "reading out",
}
IDLE = {"before": "before the first step", "between": "between steps", "after": "after the last step"}
CPU = {"launches": "launches", "copies": "copies", "waits": "waiting for the GPU", "python": "Python"}
OF_CONVOLUTIONS = ("input_gradient", "weight_gradient")
OF_LINEAR = ("head", "last", "backward")
SKEW = 50  # microseconds by which the clocks of GPU and CPU may differ in a trace


@dataclass(frozen=True)
class Span:
    """Something between two moments, in microseconds; `link` joins what was launched to its launch."""

    name: str
    begin: float
    end: float
    link: int | None


def traced(work: Callable[[], object]) -> list[dict[str, Any]]:
    """The events of a second run of it: the first, under the profiler too, makes that one ready."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(2):
            torch.cuda.synchronize()
            work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def spent(events: Iterable[dict[str, Any]], stages: int) -> dict[str, Any]:
    """Milliseconds by what was done between the last two waits for the whole GPU, of so many convolutions."""
    events = [event for event in events if event.get("ph") == "X"]
    gpu = _spans(events, ("kernel", "gpu_memcpy", "gpu_memset"))
    calls = _spans(events, ("cuda_runtime", "cuda_driver"))
    done = max(span.end for span in gpu)
    marks = [call for call in calls if call.name == "cudaDeviceSynchronize"]
    last = next(n for n, mark in enumerate(marks) if mark.end >= done - SKEW)
    begin, end = marks[last - 1].end, marks[last].end
    gpu = [span for span in gpu if span.begin >= begin]
    calls = [call for call in calls if begin <= call.begin and call.end <= end]
    graphs = {call.link for call in calls if call.name == "cudaGraphLaunch"}
    steps = [span for span in gpu if span.link in graphs] or gpu
    first, final = steps[0].begin, max(span.end for span in steps)
    work: dict[str, list[Span]] = {part: [] for part in AT_WORK}
    for span, part in zip(steps, _parts(steps, stages), strict=True):
        work[part].append(span)
    inside = {id(span) for span in steps}
    for span in gpu:
        if id(span) not in inside:
            work["data" if span.begin < final else "results"].append(span)
    phases = {"before": (begin, first), "between": (first, final), "after": (final, end)}
    return {
        "ms": _ms(end - begin),
        "at_work": {part: _ms(_covered(spans)) for part, spans in work.items()},
        "idle": {
            phase: _ms(until - since - _covered(gpu, since, until))
            for phase, (since, until) in phases.items()
        },
        "cpu": _by_cpu(calls, gpu, end - begin),
        "graph_launches": len(graphs),
        "other_launches": sum("Launch" in call.name for call in calls) - len(graphs),
    }


def _by_cpu(calls: Sequence[Span], gpu: Sequence[Span], whole: float) -> dict[str, float]:
    """What the thread that asks was at. A copy to it waits for the GPU."""
    to_host = {span.link for span in gpu if "DtoH" in span.name}
    sorts: dict[str, list[Span]] = {"launches": [], "copies": [], "waits": []}
    for call in calls:
        if "Synchronize" in call.name or call.link in to_host:
            sorts["waits"].append(call)
        else:
            sorts["copies" if "Memcpy" in call.name or "Memset" in call.name else "launches"].append(call)
    found = {sort: _ms(_covered(some)) for sort, some in sorts.items()}
    return found | {"python": _ms(whole - _covered(calls))}


def _parts(steps: Sequence[Span], stages: int) -> list[str]:
    """Which part of a step each kernel is: of those called forward, the first so many are convolutions."""
    found, seen = [], 0
    for span in steps:
        if span.name == "forward":
            seen += 1
        elif span.name in OF_LINEAR:
            seen = 0
        if span.name in OF_CONVOLUTIONS or (span.name == "forward" and seen <= stages):
            found.append("convolution")
        else:
            found.append("linear" if span.name in ("forward", *OF_LINEAR) else "step")
    return found


def _spans(events: Iterable[dict[str, Any]], kinds: tuple[str, ...]) -> list[Span]:
    spans = [
        Span(e["name"], e["ts"], e["ts"] + e.get("dur", 0), e.get("args", {}).get("correlation"))
        for e in events
        if e.get("cat") in kinds
    ]
    return sorted(spans, key=lambda span: span.begin)


def _covered(spans: Iterable[Span], since: float = float("-inf"), until: float = float("inf")) -> float:
    """How long at least one of them goes on, within these moments."""
    total, reached = 0.0, since
    for span in sorted(spans, key=lambda span: span.begin):
        begin, end = max(span.begin, reached), min(span.end, until)
        if end > begin:
            total += end - begin
            reached = end
    return total


def _ms(microseconds: float) -> float:
    return round(microseconds / 1e3, 2)


def table(cells: dict[str, dict[str, Any]]) -> str:
    """A column for each cohort; a line for each thing that takes time."""

    def line(title: str, values: Iterable[float]) -> str:
        return f"| {title} | " + " | ".join(f"{ms:,.1f}" for ms in values) + " |"

    def lines(group: str, titles: dict[str, str], key: str) -> list[str]:
        sums = line(f"**{group}**", (sum(cell["profile"][key].values()) for cell in cells.values()))
        return [
            sums,
            *(
                line(title, (cell["profile"][key][part] for cell in cells.values()))
                for part, title in titles.items()
            ),
        ]

    return "\n".join(
        [
            "| | " + " | ".join(cells) + " |",
            "|---" * (len(cells) + 1) + "|",
            line("plain loop, there", (cell["loop_ms"] for cell in cells.values())),
            line("taken", (cell["ms"] for cell in cells.values())),
            line("under the profiler", (cell["profile"]["ms"] for cell in cells.values())),
            *lines("GPU at work", AT_WORK, "at_work"),
            *lines("GPU idle", IDLE, "idle"),
            *lines("CPU, meanwhile", CPU, "cpu"),
            line("floor of bytes", (cell["floor_bytes_ms"] for cell in cells.values())),
            line("floor of operations", (cell["floor_operations_ms"] for cell in cells.values())),
        ]
    )
