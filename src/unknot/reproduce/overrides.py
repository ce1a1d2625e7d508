"""What ``--set`` may change of a reproduction: not what tells its lines, panels, seeds and cases apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from unknot.core.errors import ConfigError
from unknot.reproduce.reproduction import Reproduction, Run

OWN = {
    "seed": "each run has its own; --seeds names them",
    "name": "a run is named after its panel and its line; leave it out",
}
NAMED = ("data.name", "model.name")
"""What panels are titled after at other scales, too."""


def check_overrides(plan: Reproduction, scale: str, overrides: Sequence[str]) -> None:
    """Raise `ConfigError` where the labels of a page would be untrue of what it shows."""
    if not overrides:
        return
    runs = {size: plan.runs(size, plan.seeds_at(size)[:1]) for size in plan.scales}
    for change in overrides:
        path = change.partition("=")[0].strip()
        if path in OWN:
            raise ConfigError(f"--set {path}: {OWN[path]}")
        if path in ("method", "method.name"):
            raise ConfigError(
                f"--set {path}: a line is its method, and its label would be untrue of another; --only picks "
                f"lines, such as --only {plan.lines[0].name}"
            )
        for what in _differing(runs[scale], path):
            raise _theirs(plan, path, what)
        if any(path in (name, name.partition(".")[0]) for name in NAMED):
            titled: dict[str, set[str]] = {}
            for run in (run for some in runs.values() for run in some):
                titled.setdefault(run.panel.name, set()).add(_value(run.table, path))
            if len(set(map(frozenset, titled.values()))) > 1:
                raise _theirs(plan, path, "panels")


def _theirs(plan: Reproduction, path: str, what: str) -> ConfigError:
    told = f"--set {path}: the {what} of {plan.name} differ in {path}, and their"
    if what == "cases":
        return ConfigError(f"{told} mean would be untrue; leave it out")
    word = "labels" if what == "lines" else "titles"
    return ConfigError(
        f'{told} {word} would be untrue; a file of your own, like = "{plan.name}", may have others'
    )


def _differing(runs: Iterable[Run], path: str) -> Iterator[str]:
    """Which parts of a reproduction have a setting of their own: its lines, its panels, its cases."""
    by_line: dict[str, dict[str, set[str]]] = {}
    by_panel: dict[str, dict[str, set[str]]] = {}
    for run in runs:
        value = _value(run.table, path)
        by_line.setdefault(run.panel.name, {}).setdefault(run.line.name, set()).add(value)
        by_panel.setdefault(run.line.name, {}).setdefault(run.panel.name, set()).add(value)
    for what, parts in (("lines", by_line), ("panels", by_panel)):
        if any(len(set(map(frozenset, found.values()))) > 1 for found in parts.values()):
            yield what
    if any(len(values) > 1 for found in by_line.values() for values in found.values()):
        yield "cases"


def _value(table: Mapping[str, Any], path: str) -> str:
    """What a table has there, as a text; nothing where it has nothing."""
    found: Any = table
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return ""
        found = found[name]
    return json.dumps(found, sort_keys=True)
