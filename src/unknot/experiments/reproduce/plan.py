"""A reproduction as a value: one TOML file, what it runs at each scale, and what the paper says of it.

A file has a ``[base]`` experiment, ``[[panel]]``s (a data set or a setting) and ``[[line]]``s (a
method as a rule); each panel is run with each line and each seed. Base, panels and lines are layers:
the sections of an experiment, merged in this order, and in each a ``scale.small`` or ``scale.paper``
with what is different at that scale. Requests come by phase: with ``phase = 100`` rounds to a phase,
``{ erase = 3, phase = 2 }`` is served after round 200, with ``after = 10`` at round 210.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key
from unknot.experiments.config import Experiment, apply_overrides
from unknot.experiments.fields import (
    choose,
    convert,
    field_names,
    fill,
    read_toml,
    refuse_unknown,
    split_by_owner,
)

SCALES = ("small", "paper")
SECTIONS = ("data", "model", "train", "federation", "clock", "method", "engine")
LAYER = (*SECTIONS, "request", "phase", "phases", "scale")
MEASURES = {
    "recovering": "mean accuracy over the rounds after a client has left",
    "first": "accuracy in round 0 after a client has left",
    "end": "accuracy at the end of a phase after a client has left",
    "rounds": "rounds to the threshold after the first client has left",
    "rise": "accuracy at the end of a phase less that before the client left",
    "ids": "mean number of models that a departure makes the server aggregate",
}

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """A data set or a setting. `published` has the paper's rounds to the first threshold, by line.

    A panel with `at` belongs to that scale alone; one that is `off` is run only when it is named;
    one with `not_run` is never run, and says why. `without` names lines that it does without.
    """

    name: str
    title: str
    at: str | None = None
    thresholds: tuple[float, ...] = ()
    published: Mapping[str, int | str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    not_run: str | None = None
    off: bool = False
    note: str = ""
    layer: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A method, or a variant of one; one that is `off` is run only when it is named."""

    name: str
    label: str
    off: bool = False
    note: str = ""
    layer: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What the paper says, in a form that can be put to the question.

    `order` names lines, best first (a list in it: these alike); `above` is a bound that each of
    `lines` exceeds, `never` says that none of them gets to the threshold; `gap` is two lines whose
    distance shrinks from panel to panel in their order.
    """

    says: str
    measure: str = "recovering"
    order: tuple[tuple[str, ...], ...] = ()
    above: float | None = None
    never: bool = False
    lines: tuple[str, ...] = ()
    gap: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        choose(dict.fromkeys(MEASURES), self.measure, "claim.measure")
        if sum((bool(self.order), self.above is not None, self.never, bool(self.gap))) != 1:
            raise ConfigError(f"a claim has one of order, above, never and gap: {self.says!r}")
        if self.never and self.measure != "rounds":
            raise ConfigError(f"claim.never is about the measure 'rounds', not {self.measure!r}")
        if self.gap and len(self.gap) != 2:
            raise ConfigError(f"claim.gap names two lines, not {len(self.gap)}")

    @property
    def names(self) -> set[str]:
        return {*self.lines, *self.gap, *(name for group in self.order for name in group)}


@dataclass(frozen=True)
class Draws:
    """Who leaves is drawn `count` times by these probabilities; each leaver counts as often as drawn."""

    probabilities: tuple[float, ...]
    count: int = 100

    def __post_init__(self) -> None:
        if not self.probabilities or min(self.probabilities) < 0 or sum(self.probabilities) <= 0:
            raise ConfigError("draws.probabilities must be numbers of at least 0, and not all 0")
        if self.count < 1:
            raise ConfigError(f"draws.count must be at least 1, not {self.count}")

    def leavers(self, seed: int) -> dict[int, int]:
        """Each client that is drawn, and how often."""
        bounds = np.cumsum(self.probabilities) / np.sum(self.probabilities)
        drawn = Key.root(seed).child("reproduce", "leaver").uniform(np.arange(self.count))
        clients = np.minimum(np.searchsorted(bounds, drawn, side="right"), len(bounds) - 1)
        ids, counts = np.unique(clients, return_counts=True)
        return {int(client): int(count) for client, count in zip(ids, counts, strict=True)}


@dataclass(frozen=True)
class Scale:
    """A size at which a reproduction can be run, and roughly how long that takes."""

    takes: str = ""
    seeds: tuple[int, ...] | None = None
    layer: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One experiment of a reproduction. `table` is what it is made of, whole."""

    panel: Panel
    line: Line
    seed: int
    table: Table
    case: str = ""
    weight: float = 1.0

    @property
    def key(self) -> str:
        return "/".join(filter(None, (self.panel.name, self.line.name, str(self.seed), self.case)))

    @property
    def experiment(self) -> Experiment:
        return Experiment.of(self.table)


@dataclass(frozen=True)
class Reproduction:
    """What of a paper is reproduced, and how."""

    name: str
    title: str
    figure: str
    claim: str
    panels: tuple[Panel, ...]
    lines: tuple[Line, ...]
    paper: str = ""
    claims: tuple[Claim, ...] = ()
    seeds: tuple[int, ...] = (0,)
    bars: tuple[str, ...] = ()
    draws: Draws | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    base: Table = field(default_factory=dict)

    @staticmethod
    def read(path: str | Path) -> Reproduction:
        return Reproduction.of(read_toml(path), Path(path).stem)

    @staticmethod
    def of(table: Table, name: str) -> Reproduction:
        plain = ("title", "paper", "figure", "claim", "seeds", "bars")
        refuse_unknown(table, [*plain, "base", "scale", "panel", "line", "claims", "draws"], name)
        made: dict[str, Any] = {key: table[key] for key in plain if key in table}
        scales = convert_table(table.get("scale", {}), "scale")
        refuse_unknown(scales, SCALES, "scale")
        made["scales"] = {key: _layered(Scale, part, f"scale.{key}") for key, part in scales.items()}
        made["panels"] = _several(Panel, table, "panel")
        made["lines"] = _several(Line, table, "line")
        made["claims"] = tuple(_claim(item, f"claims[{i}]") for i, item in enumerate(table.get("claims", [])))
        if "draws" in table:
            made["draws"] = fill(Draws, table["draws"], "draws")
        base = _layer(convert_table(table.get("base", {}), "base"), "base")
        found: Reproduction = fill(Reproduction, {**made, "name": name, "base": base}, name)
        found._check()
        return found

    def seeds_at(self, scale: str) -> tuple[int, ...]:
        return self._scale(scale).seeds or self.seeds

    def panels_at(self, scale: str) -> tuple[Panel, ...]:
        self._scale(scale)
        return tuple(panel for panel in self.panels if panel.at in (None, scale))

    def runs(
        self, scale: str, seeds: Iterable[int] | None = None, overrides: Sequence[str] = ()
    ) -> list[Run]:
        """Every run there is at a scale, those that are off included, seed by seed."""
        runs: list[Run] = []
        for seed in self.seeds_at(scale) if seeds is None else seeds:
            for panel in self.panels_at(scale):
                if panel.not_run is None:
                    for line in (line for line in self.lines if line.name not in panel.without):
                        runs += self._cases(scale, panel, line, seed, overrides)
        return runs

    def _cases(
        self, scale: str, panel: Panel, line: Line, seed: int, overrides: Sequence[str]
    ) -> Iterable[Run]:
        layers = [self.base, self._scale(scale).layer]
        for part in (panel, line):
            layers += [part.layer, part.layer.get("scale", {}).get(scale, {})]
        merged: dict[str, Any] = {}
        for layer in layers:
            merged = merge(merged, {key: value for key, value in layer.items() if key != "scale"})
        table = _resolve(merged, f"{self.name}/{panel.name}/{line.name}", seed)
        if self.draws is None:
            yield Run(panel, line, seed, apply_overrides(table, overrides))
            return
        for leaver, count in self.draws.leavers(seed).items():
            requests = [{**item, "erase": leaver} if "erase" in item else item for item in table["request"]]
            changed = apply_overrides({**table, "request": requests}, overrides)
            yield Run(panel, line, seed, changed, f"client {leaver} leaves", float(count))

    def _scale(self, scale: str) -> Scale:
        if scale not in self.scales:
            raise ConfigError(f"{self.name} has no scale {scale!r}.{nearest(scale, self.scales)}")
        return self.scales[scale]

    def _check(self) -> None:
        lines, panels = ([part.name for part in parts] for parts in (self.lines, self.panels))
        for names, what in ((lines, "line"), (panels, "panel")):
            if len(set(names)) != len(names) or not names:
                raise ConfigError(
                    f"{self.name}: every {what} needs a name of its own, and there is at least one"
                )
        for measure in self.bars:
            choose(dict.fromkeys(MEASURES), measure, f"{self.name}.bars")
        for claim in self.claims:
            refuse_unknown(sorted(claim.names), lines, "claims.line")
            refuse_unknown(claim.panels, panels, "claims.panel")
        for panel in self.panels:
            if panel.at is not None:
                choose(self.scales, panel.at, f"panel {panel.name}'s at")
            refuse_unknown(panel.without, lines, f"panel {panel.name}'s without")
            refuse_unknown(panel.published, lines, f"panel {panel.name}'s published")


def names() -> tuple[str, ...]:
    """The reproductions that come with unknot."""
    folder = files("unknot") / "experiments" / "reproductions"
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if _is_toml(item.name)))


def load(name: str) -> Reproduction:
    """A reproduction by its name, or from a file of one's own."""
    if _is_toml(name):
        return Reproduction.read(name)
    if name not in names():
        raise ConfigError(f"there is no reproduction {name!r}.{nearest(name, names())}")
    text = (files("unknot") / "experiments" / "reproductions" / f"{name}.toml").read_text()
    return Reproduction.of(tomllib.loads(text), name)


def parse_seeds(text: str) -> tuple[int, ...]:
    """``0,1,2`` as seeds."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"seeds are whole numbers with commas between: 0,1,2, not {text!r}") from None


def merge(below: Table, above: Table) -> dict[str, Any]:
    """Sections are merged, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def convert_table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a section")
    return value


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _resolve(merged: dict[str, Any], name: str, seed: int) -> dict[str, Any]:
    """The table of an experiment: phases become rounds."""
    phase = convert(merged.pop("phase", None), int, f"{name}: phase")
    phases = convert(merged.pop("phases", None), int, f"{name}: phases")
    requests = []
    for i, item in enumerate(merged.pop("request", [])):
        where = f"{name}: request[{i}]"
        refuse_unknown(item, ("erase", "join", "phase", "after"), where)
        at = convert(item.get("phase"), int, f"{where}.phase") * phase
        named = {key: item[key] for key in ("erase", "join") if key in item}
        requests.append({**named, "round": at + convert(item.get("after", 0), int, f"{where}.after")})
    merged["federation"] = {**merged.get("federation", {}), "rounds": phase * phases}
    return {"name": name, "seed": seed, **merged, "request": requests}


def _layer(table: dict[str, Any], where: str, *, scaled: bool = False) -> dict[str, Any]:
    refuse_unknown(table, [key for key in LAYER if not (scaled and key == "scale")], where)
    for key in SECTIONS:
        if key in table:
            convert_table(table[key], f"{where}.{key}")
    scales = convert_table(table.get("scale", {}), f"{where}.scale")
    refuse_unknown(scales, SCALES, f"{where}.scale")
    for key, part in scales.items():
        _layer(convert_table(part, f"{where}.scale.{key}"), f"{where}.scale.{key}", scaled=True)
    return table


def _layered(cls: type, table: object, where: str) -> Any:
    """A value with fields of its own and the sections of an experiment beside them."""
    own = [name for name in field_names(cls) if name != "layer"]
    keys = [key for key in LAYER if key not in own]
    parts = split_by_owner(convert_table(table, where), {"own": own, "layer": keys}, where)
    return fill(cls, {**parts["own"], "layer": _layer(parts["layer"], where)}, where)


def _several(cls: type, table: Table, key: str) -> tuple[Any, ...]:
    return tuple(_layered(cls, item, f"{key}[{i}]") for i, item in enumerate(table.get(key, [])))


def _claim(item: object, where: str) -> Claim:
    table = convert_table(item, where)
    order = [group if isinstance(group, list) else [group] for group in table.get("order", [])]
    return fill(Claim, {**table, **({"order": order} if order else {})}, where)
