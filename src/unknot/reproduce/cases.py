"""The runs of a line: from a value a run to a value a seed, which may have several cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unknot.reproduce.records import Record
from unknot.reproduce.reproduction import Run

Pair = tuple[Run, Record]


def by_seed(pairs: Sequence[Pair], value: Mapping[str, float | None]) -> dict[int, float | None]:
    """A value a seed: the mean over its cases, each as often as it was drawn."""
    weighed: dict[int, list[tuple[float, float | None]]] = {}
    for run, _ in pairs:
        weighed.setdefault(run.seed, []).append((run.weight, value[run.key]))
    found: dict[int, float | None] = {}
    for seed, cases in weighed.items():
        there = [(weight, item) for weight, item in cases if item is not None]
        whole = len(there) == len(cases)
        found[seed] = sum(w * x for w, x in there) / sum(w for w, _ in there) if whole else None
    return found


def partly(
    pairs: Sequence[Pair], cases: Mapping[str, float | None], ends: Mapping[str, float | None]
) -> dict[int, float]:
    """Of the seeds in which some cases arrive and others do not, the mean as far as it was seen."""
    whole = by_seed(pairs, cases)
    some = {run.seed for run, _ in pairs if cases[run.key] is not None and whole[run.seed] is None}
    seen = by_seed(pairs, {key: ends[key] if value is None else value for key, value in cases.items()})
    return {seed: mean for seed, mean in known(seen).items() if seed in some}


def known(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if value is not None}
