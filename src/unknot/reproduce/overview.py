"""What can be reproduced, with which data, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from unknot.data.registry import catalogue
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.reproduction import load, names


@dataclass(frozen=True)
class Size:
    """A scale of a reproduction: its data sets and whether they are here, roughly how long it takes."""

    name: str
    takes: str
    data: Mapping[str, bool]


@dataclass(frozen=True)
class Entry:
    """A reproduction, as a list shows it."""

    name: str
    paper: str
    figure: str
    title: str
    scales: tuple[Size, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def overview() -> list[Entry]:
    here = {entry.name: entry.present for entry in catalogue()}
    entries = []
    for name in names():
        plan = load(name)
        sizes = []
        for scale, size in plan.scales.items():
            if isinstance(plan, GameReproduction):
                sizes.append(Size(scale, size.takes, {}))
                continue
            runs = plan.runs(scale, seeds=plan.seeds_at(scale)[:1])
            sets = sorted({run.table.get("data", {}).get("name", "digits") for run in runs})
            sizes.append(Size(scale, size.takes, {item: here.get(item, False) for item in sets}))
        entries.append(Entry(name, plan.paper, plan.figure, plan.title, tuple(sizes)))
    return entries
