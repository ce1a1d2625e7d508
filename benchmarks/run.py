"""Run every contestant on every workload and write docs/benchmarks.md: ``python -m benchmarks.run``.

The peers live in environments of their own under `.bench-venv`, which are made on the first run. Every
contestant runs several times, turn by turn, since machines are noisy; medians count. Where a
contestant has more than one setting (threads, processes), all are run and its best one counts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import parts, small
from benchmarks.peers.common import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".bench-venv"
ENVIRONMENTS = {
    "first": ("flwr[simulation]", "pfl[pytorch]"),
    "fluke": ("fluke-fl",),
    "plato": ("torchvision", "plato-learn"),
}
"""What is installed into each of the peers' environments, beside torch and numpy."""
CONSTRAINTS = ROOT / "benchmarks" / "constraints.txt"
LIMIT = 900  # seconds for one run of one contestant

COLUMNS = (
    "",
    "seconds a round",
    "fastest to slowest run",
    "× plain loop",
    "× unknot",
    "start-up, s",
    "memory, MiB",
    "loss",
)
SCALE = """\
A synchronous federation of {clients:,} clients with {per_round} a round (two samples each, the MLP) has
its first round done {first_round_done_seconds:.1f} s after its process was started, with
{peak_rss_mb:.0f} MB at the most; a round then takes {seconds_per_round:.3f} s."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Contestant:
    """A module in `benchmarks.peers`, and the settings that it may be run with."""

    name: str
    module: str
    title: str
    environment: str | None
    settings: Callable[[Workload, int], list[tuple[str, ...]]]


def _plain(workload: Workload, cores: int) -> list[tuple[str, ...]]:
    return [("--threads", str(n)) for n in sorted({1, cores})]


def _pfl(workload: Workload, cores: int) -> list[tuple[str, ...]]:
    return [("--processes", str(n)) for n in sorted({1, min(cores, workload.per_round)})]


def _fluke(workload: Workload, cores: int) -> list[tuple[str, ...]]:
    return [(*threads, "--keep", keep) for threads in _plain(workload, cores) for keep in ("0", "1")]


def _plato(workload: Workload, cores: int) -> list[tuple[str, ...]]:
    return [("--processes", str(n)) for n in sorted({min(cores, workload.per_round), workload.per_round})]


def _as_it_is(workload: Workload, cores: int) -> list[tuple[str, ...]]:
    return [()]


CONTESTANTS = (
    Contestant("plain", "plain", "plain PyTorch loop", None, _plain),
    Contestant("pfl", "pfl_run", "pfl", "first", _pfl),
    Contestant("flower", "flower_run", "Flower's simulation", "first", _as_it_is),
    Contestant("fluke", "fluke_run", "fluke", "fluke", _fluke),
    Contestant("plato", "plato_run", "Plato", "plato", _plato),
    Contestant("unknot", "unknot_run", "**unknot**", None, _as_it_is),
)


def prepare(environment: str) -> None:
    """Make an environment for peers, unless it is there with these pins."""
    folder = PEERS / environment
    stamp = folder / "pins"
    pins = hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == pins:
        return
    say(f"making {folder.relative_to(ROOT)} for the peers")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    lines = CONSTRAINTS.read_text().splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS)]
    subprocess.run([*install, torch, "numpy"], check=True)
    subprocess.run([*install, torch, *ENVIRONMENTS[environment]], check=True)
    stamp.write_text(pins)


def run_one(contestant: Contestant, workload: str, settings: Iterable[str], rounds: int | None) -> Record:
    """One run in a process of its own: its JSON line, or an error with the end of what it said."""
    own = contestant.environment
    python = sys.executable if own is None else str(PEERS / own / "bin" / "python")
    command = [python, "-m", f"benchmarks.peers.{contestant.module}", workload, *settings]
    if rounds:
        command += ["--rounds", str(rounds)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its children can be ended with it
    )
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"{contestant.name} on {workload} took longer than {LIMIT} s") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise RuntimeError(f"{contestant.name} on {workload} failed:\n{err[-2000:]}")
    record: Record = json.loads(lines[-1])
    say(f"{workload} {contestant.name} {record['settings']}: {record['seconds_per_round']:.4f} s a round")
    return record


def measure(
    workloads: list[str], contestants: list[Contestant], repeats: int, rounds: int | None, *scale: str
) -> dict[str, Any]:
    """All runs of all settings, turn by turn."""
    cores = os.cpu_count() or 1
    runs = [
        run_one(contestant, workload, settings, rounds)
        for workload in workloads
        for _ in range(repeats)
        for contestant in contestants
        for settings in contestant.settings(WORKLOADS[workload], cores)
    ]
    return {"machine": machine(), "repeats": repeats, "runs": runs, "scale": run_scale(*scale)}


def run_scale(*options: str) -> Record:
    """The federation of 10,000 clients; it fails by itself where it is too slow or too large."""
    command = [sys.executable, "-m", "benchmarks.scale", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT)
    record: Record = json.loads(done.stdout)
    say(f"scale: {record}")
    return record


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in _lines(info) if line.startswith("model name")]
    memory = [line.split()[1] for line in _lines(Path("/proc/meminfo")) if line.startswith("MemTotal")]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[0]) / 2**20) if memory else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def summarise(runs: list[Record]) -> dict[str, dict[str, Record]]:
    """Medians over the repeats of each contestant's best setting, by workload, with ratios."""
    summary: dict[str, dict[str, Record]] = {}
    for workload in dict.fromkeys(run["workload"] for run in runs):
        entries: dict[str, list[Record]] = {}
        for run in runs:
            if run["workload"] == workload:
                entries.setdefault(json.dumps([run["contestant"], run["settings"]]), []).append(run)
        rows: dict[str, Record] = {}
        for row in map(_medians, entries.values()):
            best = rows.setdefault(row["contestant"], row)
            if row["seconds_per_round"] < best["seconds_per_round"]:
                rows[row["contestant"]] = row
        for row in rows.values():
            for base in rows.keys() & {"plain", "unknot"}:
                row[f"times_{base}"] = row["seconds_per_round"] / rows[base]["seconds_per_round"]
        summary[workload] = rows
    return summary


def _medians(repeats: list[Record]) -> Record:
    """One row from the runs of one contestant with one setting."""
    times = [run["seconds_per_round"] for run in repeats]
    row = {key: repeats[0][key] for key in ("contestant", "settings", "versions")}
    row |= {"fastest": min(times), "slowest": max(times)}
    numbers = [key for key, value in repeats[0].items() if isinstance(value, float)]
    return row | {key: statistics.median(run[key] for run in repeats) for key in numbers}


def check_losses(summary: dict[str, dict[str, Record]]) -> list[str]:
    """Who has not trained as the others did: a loss more than 5 % from the median of all."""
    wrong = []
    for workload, rows in summary.items():
        middle = statistics.median(row["loss"] for row in rows.values())
        for name, row in rows.items():
            if abs(row["loss"] - middle) > 0.05 * middle:
                wrong.append(
                    f"{name} on {workload} ends with loss {row['loss']:.4f}, the others near {middle:.4f}"
                )
    return wrong


def rounds_part(results: dict[str, Any], summary: dict[str, dict[str, Record]]) -> str:
    """What was measured with what, and a table for each workload."""
    facts = results["machine"]
    titles = {contestant.name: contestant.title for contestant in CONTESTANTS}
    versions: dict[str, str] = {}
    for run in results["runs"]:
        versions |= run["versions"]
    text = [
        f"Measured {facts['date']} on {facts['cores']} cores ({facts['cpu']}), {facts['memory_gib']} GiB, "
        f"{facts['system']}; " + ", ".join(f"{name} {v}" for name, v in sorted(versions.items())) + ".",
    ]
    for workload, rows in summary.items():
        spec = WORKLOADS[workload]
        text += [
            "",
            f"## {workload}: {spec.title}",
            "",
            f"One local epoch of SGD {spec.lr}, {spec.per_round} clients a round, "
            f"{_rounds(results, workload)} timed rounds a run, medians of {results['repeats']} runs.",
            "",
            "| " + " | ".join(COLUMNS) + " |",
            "|---" * len(COLUMNS) + "|",
        ]
        for name, row in sorted(rows.items(), key=lambda item: -item[1]["seconds_per_round"]):
            cells = [
                titles[name],
                f"{row['seconds_per_round']:.4f}",
                f"{row['fastest']:.4f} to {row['slowest']:.4f}",
                *(f"{row[k]:.2f}" if k in row else "" for k in ("times_plain", "times_unknot")),
                f"{row['startup_seconds'] + row['warmup_seconds']:.1f}",
                f"{row['peak_memory_mib']:.0f}",
                f"{row['loss']:.4f}",
            ]
            text.append("| " + " | ".join(cells) + " |")
        settings = "; ".join(f"{titles[n]}: {_words(row['settings'])}" for n, row in rows.items())
        text += ["", f"Settings, the best of those tried: {settings}."]
        if "outside_training" in rows.get("unknot", {}):
            share = rows["unknot"]["outside_training"]
            text.append(f"Of unknot's time, {100 * share:.1f} % is spent outside training.")
    return "\n".join(text)


def _rounds(results: dict[str, Any], workload: str) -> int:
    return max(int(run["rounds"]) for run in results["runs"] if run["workload"] == workload)


def _words(settings: Record) -> str:
    words = [
        f"{key.replace('_', ' ')} {value}" for key, value in settings.items() if key != "outside_training"
    ]
    return ", ".join(words) or "default"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contestant (3)")
    parser.add_argument("--rounds", type=int, help="timed rounds a run (those of the workload)")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--contestants", nargs="+", default=names, choices=names)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page is written (docs)")
    few: dict[str, Any] = {"contestants": ["plain", "unknot"], "workloads": ["W2"], "repeats": 1, "rounds": 2}
    options = small.parse(parser, globals(), docs=Path(tempfile.gettempdir()) / "unknot-benchmarks", **few)
    contestants = [c for c in CONTESTANTS if c.name in options.contestants]
    for environment in dict.fromkeys(c.environment for c in contestants if c.environment):
        prepare(environment)
    scale = ["--small"] * options.small
    results = measure(options.workloads, contestants, options.repeats, options.rounds, *scale)
    summary = summarise(results["runs"])
    raw = options.docs / "results" / "benchmarks.json"
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text(json.dumps({**results, "summary": summary}, indent=1) + "\n")
    parts.write(
        options.docs / "benchmarks.md",
        rounds=rounds_part(results, summary),
        scale=SCALE.format(**results["scale"]),
    )
    say(f"wrote {options.docs / 'benchmarks.md'} and {raw}")
    if wrong := check_losses(summary):
        sys.exit("not everybody trained alike: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
