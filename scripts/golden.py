"""Make the golden digests, or say what would change in them.

usage: python scripts/golden.py [--device cpu|cuda] [--because REASON] [--show CASE ...]

The cases of `tests/golden/golden_cases.py` are run in a process of their own, on one core, by instructions
that most machines have; the CPU's take about 15 seconds. What comes of them is written to `cpu.json` or
`gpu.json` beside it, with the environment that bits depend on. New cases are added at once. Where anything
else changed, nothing is written unless a reason is given: it stays in the file, and a line for the changelog
is printed. `--show` prints all that is recorded of some cases, with nothing shortened, and writes nothing.

On a machine with a GPU, a clone and torch, numpy and safetensors will do:

    python scripts/golden.py --device cuda
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
FILES = {"cpu": GOLDEN / "cpu.json", "cuda": GOLDEN / "gpu.json"}
PINNED = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_ICL AVX512_SPR X86_V4",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
BITS = ("digest", "digests")
"""The fields that are bits: what is served at the end, and what was served and the losses on the way."""
NEARLY = ("losses", "after", "scores")
"""Those that agree but for rounding on any machine."""

Record = Mapping[str, Any]
Found = Mapping[str, Any]


def run(device: str, cases: Sequence[str] = ()) -> Found:
    """The environment, and the records of the cases, of a child process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        subprocess.run(
            [sys.executable, str(GOLDEN / "golden_cases.py"), device, str(out), *cases],
            env={**os.environ, **PINNED, "PYTHONPATH": path},
            check=True,
        )
        found: Found = json.loads(out.read_text())
        return found


def elsewhere(kept: Found, found: Found) -> str:
    """In what another environment differs from that of a file; nothing where bits are to be equal."""
    old, new = kept["environment"], found["environment"]
    apart = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} is {new.get(name)}, and was {old.get(name)}" for name in apart)


def differences(kept: Record, found: Record, *, bits: bool = True) -> dict[str, list[str]]:
    """What differs in each case that is in `kept`, by field; without `bits`, what holds on any machine."""
    apart: dict[str, list[str]] = {}
    for case, old in kept.items():
        new = found.get(case)
        if new is None:
            apart[case] = ["is gone"]
            continue
        fields = [name for name in {**old, **new} if bits or name not in BITS]
        told = [
            f"{name}: {old.get(name)} became {new.get(name)}"
            for name in fields
            if not _same(name, old.get(name), new.get(name))
        ]
        if told:
            apart[case] = told
    return apart


def _same(field: str, old: Any, new: Any) -> bool:
    if field not in NEARLY or old is None or new is None or len(old) != len(new):
        return bool(old == new)
    return all(
        a == b or (a and b and math.isclose(a, b, rel_tol=0.01)) for a, b in zip(old, new, strict=True)
    )


def told(apart: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(
        f"{case}\n" + "\n".join(f"    {line}" for line in lines) for case, lines in apart.items()
    )


def renew(file: Path, found: Found, because: str = "") -> str:
    """Write what was found, and say what to put down of it; `ValueError` where it needs a reason."""
    kept = (
        json.loads(file.read_text()) if file.exists() else {"environment": None, "changes": [], "cases": {}}
    )
    moved = elsewhere(kept, found) if kept["environment"] else ""
    apart = differences(kept["cases"], found["cases"])
    changes = list(kept["changes"])
    if (apart or moved) and not because:
        what = told(apart) or "no case changed"
        raise ValueError(f"{what}\n{file.name}: {moved or 'the same environment'}; write --because REASON")
    note = f"{file.name}: {len(found['cases'].keys() - kept['cases'].keys())} new cases"
    if apart or moved:
        all_of_them = len(apart) == len(kept["cases"])
        changes.append({"because": because, "cases": "all" if all_of_them else sorted(apart)})
        names = "all cases" if all_of_them else "; ".join(sorted(apart)) or "no case"
        note = f"- Golden digests ({file.stem}) changed because {because}: {names}."
    _write(file, {"environment": found["environment"], "changes": changes, "cases": found["cases"]})
    return note


def _write(file: Path, whole: Mapping[str, Any]) -> None:
    """As JSON, a case a line: what changed is seen in a diff."""
    head = {name: whole[name] for name in ("environment", "changes")}
    lines = [f"{json.dumps(case)}: {json.dumps(record)}" for case, record in whole["cases"].items()]
    text = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    file.write_text(f'{text},\n "cases": {{\n' + ",\n".join(f"  {line}" for line in lines) + "\n }\n}\n")


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the golden digests, or say what would change in them.")
    parser.add_argument("--device", choices=FILES, default="cpu")
    parser.add_argument("--because", default="", metavar="REASON", help="why what is there may change")
    parser.add_argument(
        "--show", nargs="+", default=[], metavar="CASE", help="print cases, and write nothing"
    )
    args = parser.parse_args(given)
    found = run(args.device, args.show)
    if args.show:
        sys.stdout.write(json.dumps(found["cases"], indent=1, ensure_ascii=False) + "\n")
        return 0
    try:
        sys.stdout.write(renew(FILES[args.device], found, args.because) + "\n")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
