"""What the record of ``benchmarks.gpu`` has to tell, written into the pages on GPUs.

What it has not measured is left out. Goals stand beside what was measured; what misses one says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import gpu_profile, parts

NAMES = {"mlp": "MLP 784-80-10", "lenet5": "LeNet-5"}
SHORT = {"mlp": "MLP", "lenet5": "LeNet-5", "vgg16": "VGG-16"}
CLIENTS = (100, 1000)
Record = dict[str, Any]

PROFILE = """\
An epoch of 600 samples for every client of a cohort on one {gpu}, PyTorch {torch}
([record](results/gpu.json)): where its milliseconds go by PyTorch's profiler, which takes time of its own.
What the GPU does adds up to the time under the profiler, and so does what the CPU does. The plain loop is
measured there with three clients, and multiplied.

{table}
"""
PRICE = """\
What that costs, in milliseconds of an epoch (VGG-16: of 500 images, in batches of 32): with the same bits
each time, and by PyTorch alone (without our kernels, with any number of rows, and with whatever algorithm
cuDNN finds fastest), where bits may differ from run to run.

| | same bits | PyTorch alone | × |
|---|---|---|---|
{lines}

And once: the first round of the four cohorts below takes {firsts} ms, of which trials
(each number of models in a stack is tried once, on made batches) take those in brackets; kernels are
compiled already.
"""
SPEED = """\
`{command}` on one {gpu}, PyTorch {torch}
([record](results/gpu.json)): an epoch of 600 samples for every client of a cohort, batches of 32, SGD,
{precision}. Milliseconds, and what was aimed at:

| | taken | goal | GPU at work | of its peak | plain loop, there | floor |
|---|---|---|---|---|---|---|
{rows}

The plain loop is measured with three clients on the same GPU, and multiplied. The floor is what no code can
beat: the operations at the GPU's peak in float32, or the bytes of weights and batches. *Of its peak* is the
share of that peak in operations that the GPU reaches while it is at work. What else keeps the MLP above its
floor is Python: with 1,000 clients {python:.0f} µs a job to check it, to name its draws and to give its
result an owner and a lineage, {idle:.0f} µs of them while the GPU is idle
([where the time goes](benchmarks.md#on-a-gpu)).{earlier}

The first round tries every number of rows before it is used: it takes up to {first:.1f} s where kernels are
compiled already. The very first of a model, which compiles them, took {compiled}.

| | | goal |
|---|---|---|
{more}

A round of FedAvg with 16 clients takes {fedavg:.1f} ms (MLP), most of it the Python of any round: an epoch of
100 clients takes {epoch:.1f}. MMT's {further:.1f} ms more are 64 more jobs, and 30 more models that are each
aggregated and checked.
"""


def cells(record: Record) -> dict[str, Record]:
    """The cohorts of the table that have a profile, by what they are called."""
    named = {
        f"{NAMES[name]}, {clients:,} clients": record.get(f"{name}, {clients} clients", {})
        for name in NAMES
        for clients in CLIENTS
    }
    return {title: cell for title, cell in named.items() if "profile" in cell}


def rows(record: Record) -> list[str]:
    """The cohorts as the lines of a table: measured, goal, busy, share of the peak, loop, floor."""
    lines = []
    for title, found in cells(record).items():
        floor = max(found["floor_operations_ms"], found["floor_bytes_ms"])
        told = [f"{found['ms']:.1f}", against(found["ms"], found["goal"], f"{found['goal']:g}")]
        told += [f"{found['gpu_ms']['busy']:.1f}", _percent(share_of_peak(found))]
        told += [f"{found['loop_ms']:,.0f}", f"{floor:.1f}"]
        lines.append(f"| {title} | {' | '.join(told)} |")
    return lines


def against(measured: float, goal: float, said: str) -> str:
    """A goal, and that it was missed, where it was."""
    return said if measured <= goal else f"{said}, missed"


def profile_part(record: Record) -> str:
    """For docs/benchmarks.md."""
    return PROFILE.format(
        gpu=record["gpu"], torch=record["torch"], table=gpu_profile.table(cells(record))
    ).strip()


def price_part(record: Record) -> str:
    """For docs/gpu.md."""
    lines = []
    for title, one in record["price"].items():
        name, rest = title.split(",", 1)
        figures = f"{one['same_bits_ms']:,.1f} | {one['free_ms']:,.1f} | {one['times']:.2f}"
        lines.append(f"| {SHORT[name]},{rest} | {figures} |")
    firsts = ", ".join(
        f"{cell['first_round']['ms']:,.0f} ({cell['first_round']['trials_ms']:,.0f})"
        for cell in cells(record).values()
    )
    return PRICE.format(lines="\n".join(lines), firsts=firsts).strip()


def speed_part(record: Record) -> str:
    """For docs/gpu.md."""
    found, trees = cells(record), record["mlp, MMT"]
    many = record["mlp, 1000 clients"]["profile"]
    compiled = [f"{record[f'{name}, 100 clients']['ms_first'] / 1e3:.1f} s ({SHORT[name]})" for name in NAMES]
    return SPEED.format(
        command=command(record),
        gpu=record["gpu"],
        torch=record["torch"],
        precision=record["precision"],
        rows="\n".join(rows(record)),
        python=many["cpu"]["python"],  # milliseconds of a thousand jobs: microseconds of one
        idle=sum(many["idle"].values()),
        earlier=_earlier(record),
        first=max(cell["first_round"]["ms"] for cell in found.values()) / 1e3,
        compiled=" and ".join(compiled),
        fedavg=trees["fedavg_ms"],
        epoch=record["mlp, 100 clients"]["ms"],
        further=trees["mmt_ms"] - trees["fedavg_ms"],
        more="\n".join(f"| {' | '.join(line)} |" for line in _more(record)),
    ).strip()


def _earlier(record: Record) -> str:
    """What earlier runs took on other machines of the kind; Python depends on their processors."""
    if not (runs := record.get("earlier")):
        return ""
    taken = {
        name: ", ".join(f"{run[f'{name} clients']:.1f}" for run in runs) for name in ("mlp, 100", "mlp, 1000")
    }
    return (
        " That depends on the processor\nbeside the GPU: runs on other machines of the kind took "
        f"{taken['mlp, 100']} ms (100 clients) and\n{taken['mlp, 1000']} ms (1,000)."
    )


def command(record: Record) -> str:
    """What was asked for to get it."""
    options = {"vgg16": "--vgg", "agreement": "--agree", "price": "--price", "lowered": "--lowered"}
    if "large" in record:
        options["large"] = f"--large {record['large']['rounds']}"
    given = [option for key, option in options.items() if key in record]
    return " ".join(["python -m benchmarks.gpu", *given])


def share_of_peak(cell: Record) -> float:
    """Of the GPU's peak in operations, while it is at work."""
    share: float = cell["floor_operations_ms"] / cell["gpu_ms"]["busy"]
    return share


def _more(record: Record) -> Iterator[tuple[str, str, str]]:
    """What else was measured, as (what, figures, goal)."""
    for name in NAMES:
        trees = record[f"{name}, MMT"]
        yield (
            f"MMT with 16 clients (80 jobs a round), × FedAvg: {SHORT[name]}",
            f"{trees['times']:.2f}: {trees['mmt_ms']:.1f} ms a round against {trees['fedavg_ms']:.1f}",
            against(trees["times"], trees["goal"], f"{trees['goal']:g}"),
        )
    if "large" in record:
        yield from _large(record["large"])
    if "vgg16" in record:
        yield _vgg(record["vgg16"])
    judged = [(SHORT[name], record[f"{name}, judging"]) for name in NAMES]
    told = [
        f"{name} {one['alone']:.1f} alone, {one['among 20']:.1f} among 20, {one['loop']:.1f} by the loop"
        for name, one in judged
    ]
    yield "a model judged on 10,000 samples, ms", "; ".join(told), ""
    if "lowered" in record:
        yield _lowered(record)
    if "agreement" in record:
        cpu, gpu = record["agreement"]["cpu"], record["agreement"]["cuda"]
        apart = 100 * record["agreement"]["furthest_apart"]
        yield (
            f"accuracy on the digits over {record['agreement']['seeds']} seeds, LeNet-5, 20 rounds",
            f"{_spread(cpu)} on a CPU, {_spread(gpu)} on the GPU; at most {apart:.2f} points apart",
            "",
        )


def _large(large: Record) -> Iterator[tuple[str, str, str]]:
    samples = large["clients"] * 600 * 28 * 28 * 4 / 1e9
    share = large["share_not_training"]
    each = 1e3 * large["ms_a_round"] * share / large["a_round"]
    yield (
        f"LeNet-5, {large['a_round']:,} of {large['clients']:,} clients a round, {large['rounds']} rounds",
        f"{large['seconds']:.0f} s, {large['ms_a_round']:.0f} ms a round; {large['memory_gb']:.0f} GB, "
        f"{samples:.0f} of them the samples",
        "",
    )
    yield (
        "of that not training",
        f"{_percent(share)}: {each:.0f} µs a client to choose it, to send it out, to look at its update and "
        "to keep the record",
        against(share, large["goal"], _percent(large["goal"])),
    )


def _vgg(vgg: Record) -> tuple[str, str, str]:
    asked = vgg["setting"]
    setting = (
        f"{asked['samples']:,} images of 32×32 a client, batches of {asked['batch']}, momentum "
        f"{asked['momentum']:g}, norm {asked['norm']!r}, precision {asked['precision']!r} by both"
    )
    an_hour = f"{vgg['stacked']['clients_an_hour']:,}; the plain loop {vgg['loop']['clients_an_hour']:,}"
    return (
        f"VGG-16 as in KNOT's Figure 5 ({setting}): clients an hour",
        f"{an_hour}: one epoch of {asked['clients']} clients was measured, and taken {asked['epochs']} times",
        "",
    )


def _lowered(record: Record) -> tuple[str, str, str]:
    low = record["lowered"]
    told = [
        f"{title} {low[key]['ms']:.1f} (float32: {record[key]['ms']:.1f})"
        for name in NAMES
        for clients in CLIENTS
        if (key := f"{name}, {clients} clients") in low
        for title in [f"{SHORT[name]}, {clients:,} clients"]
    ]
    return f'the epoch above with `precision = "{low["precision"]}"`, ms', "; ".join(told), ""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _spread(found: Record) -> str:
    return f"{100 * found['mean']:.1f} ± {100 * found['deviation']:.1f} %"


def write_pages(docs: Path) -> None:
    """Tell in the pages what the record has."""
    record = json.loads((docs / "results" / "gpu.json").read_text(encoding="utf-8"))
    parts.write(docs / "benchmarks.md", gpu=profile_part(record))
    parts.write(docs / "gpu.md", price=price_part(record), speed=speed_part(record))
