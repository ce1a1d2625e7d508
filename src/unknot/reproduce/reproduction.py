"""A reproduction as a value: one TOML file, what it runs at each scale, and what the paper says of it.

A file has a ``[base]`` experiment, ``[[panel]]``s (a data set or a setting) and ``[[line]]``s (a
method as a rule); each panel is run with each line and each seed. Base, panels and lines are layers:
the sections of an experiment, merged in this order, and in each a ``scale.small`` or ``scale.paper``
with what is different at that scale. Requests come by phase: with ``phase = 100`` rounds to a phase,
``{ erase = 3, phase = 2 }`` is served after round 200, with ``after = 10`` at round 210. Or they come at
a ``round`` or a ``time``; without phases, the run is as long as ``[federation]`` says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from os.path import exists, isdir
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, nearest
from unknot.core.fields import choose, convert, read_toml, refuse_unknown
from unknot.core.registry import filled
from unknot.experiments.config import Experiment
from unknot.experiments.exposed import Exposure
from unknot.experiments.tables import apply_overrides
from unknot.incentive import READINGS
from unknot.reproduce.divisions import Division
from unknot.reproduce.games import GameReproduction
from unknot.reproduce.layers import SECTIONS, checked, layered, merge, on_top, resolve, several
from unknot.reproduce.parts import (
    MEASURES,
    SCALES,
    Claim,
    Draws,
    Line,
    Panel,
    Scale,
    Table,
    check_named,
    check_seeds,
    convert_table,
    convert_tables,
    no_scale,
)

AXES = ("rounds", "time")


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
        return Experiment.of({key: part for key, part in self.table.items() if key != "audit"})

    @property
    def exposure(self) -> Exposure | None:
        """Whether and how what it erases is attacked, before and after."""
        if "audit" not in self.table:
            return None
        return filled(Exposure, convert_table(self.table["audit"], "audit"), "audit")


@dataclass(frozen=True)
class Reproduction:
    """What of a paper is reproduced, and how.

    `axis` says whether it counts rounds or simulated time; `baseline` names the line that times are
    compared with; `uses` names reproductions whose runs are taken over where they are the same; `game` names
    the game that is played where a line has a `policy`, draw by draw with the seeds. `published_by` are the
    measures that the panels' published figures may be compared with: by what the paper measured. Its
    figure has a curve a line, unless `curves` is false, and `bars` of measures.
    """

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
    curves: bool = True
    axis: str = "rounds"
    baseline: str | None = None
    uses: tuple[str, ...] = ()
    draws: Draws | None = None
    game: str | None = None
    published_by: tuple[str, ...] = ("rounds", "total")
    scales: Mapping[str, Scale] = field(default_factory=dict)
    base: Table = field(default_factory=dict)

    @staticmethod
    def of(table: Table, name: str) -> Reproduction:
        if "like" in table:
            table = _like(table, name)
        plain = (
            *("title", "paper", "figure", "claim", "seeds", "bars", "curves", "axis", "baseline", "uses"),
            *("game", "published_by"),
        )
        refuse_unknown(table, [*plain, "base", "scale", "panel", "line", "claims", "draws"], name)
        made: dict[str, Any] = {key: table[key] for key in plain if key in table}
        scales = convert_table(table.get("scale", {}), "scale")
        refuse_unknown(scales, SCALES, "scale")
        made["scales"] = {key: layered(Scale, part, f"scale.{key}") for key, part in scales.items()}
        made["panels"] = several(Panel, table, "panel")
        made["lines"] = several(Line, table, "line")
        claims = enumerate(convert_tables(table.get("claims", []), "claims"))
        made["claims"] = tuple(_claim(item, f"claims[{i}]") for i, item in claims)
        if "draws" in table:
            made["draws"] = filled(Draws, convert_table(table["draws"], "draws"), "draws")
        base = checked(convert_table(table.get("base", {}), "base"), "base")
        found = filled(Reproduction, {**made, "name": name, "base": base}, name)
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
        panels = [panel for panel in self.panels_at(scale) if panel.not_run is None]
        own = {panel.name: panel.seeds or self.seeds_at(scale) for panel in panels}
        asked = dict.fromkeys(seed for some in own.values() for seed in some) if seeds is None else seeds
        for seed in asked:
            for panel in panels:
                if seeds is None and seed not in own[panel.name]:
                    continue
                for line in (line for line in self.lines if line.name not in panel.without):
                    if seeds is not None or seed in panel.fewer.get(line.name, own[panel.name]):
                        runs += self._cases(scale, panel, line, seed, overrides)
        return runs

    def _cases(
        self, scale: str, panel: Panel, line: Line, seed: int, overrides: Sequence[str]
    ) -> Iterable[Run]:
        merged = self._merged(scale, panel, line)
        if line.policy is not None:
            samples = convert(merged["data"]["samples"], int, f"{self.name}: data.samples")
            merged = merge(merged, _division(str(self.game), seed).layer(line.policy, samples))
        for section, key in (setting.split(".", 1) for setting in (*panel.drops, *line.drops)):
            if section in merged:  # of some lines and panels, what is dropped is not there
                merged[section] = {name: value for name, value in merged[section].items() if name != key}
        where = f"{self.name}/{panel.name}/{line.name}"
        if "name" not in merged.get("method", {}):
            raise ConfigError(f"{where} has no method: name one in the line, as method = {{ name = 'rfs' }}")
        table = resolve(merged, where, seed)
        if self.draws is None:
            yield Run(panel, line, seed, apply_overrides(table, overrides))
            return
        if not any("erase" in item for item in table["request"]):
            raise ConfigError(f"{where}: [draws] says who leaves, and no request erases anybody")
        for leaver, count in self.draws.leavers(seed).items():
            requests = [{**item, "erase": leaver} if "erase" in item else item for item in table["request"]]
            changed = apply_overrides({**table, "request": requests}, overrides)
            yield Run(panel, line, seed, changed, case_of(leaver), float(count))

    def _merged(self, scale: str, panel: Panel, line: Line) -> dict[str, Any]:
        """The layers of a run as one table, before anything is dropped from it."""
        layers = [self.base, self._scale(scale).layer]
        for part in (panel, line):
            layers += [part.layer, part.layer.get("scale", {}).get(scale, {})]
        layers.append(panel.lines.get(line.name, {}))
        merged: dict[str, Any] = {}
        for layer in layers:
            merged = merge(merged, {key: value for key, value in layer.items() if key != "scale"})
        return merged

    def _scale(self, scale: str) -> Scale:
        if scale not in self.scales:
            raise no_scale(self.name, scale, self.scales)
        return self.scales[scale]

    def _check(self) -> None:
        lines, panels = ([part.name for part in parts] for parts in (self.lines, self.panels))
        for names, what in ((lines, "line"), (panels, "panel")):
            if len(set(names)) != len(names) or not names:
                raise ConfigError(
                    f"{self.name}: every {what} needs a name of its own, and there is at least one"
                )
        choose(dict.fromkeys(AXES), self.axis, f"{self.name}.axis")
        for policy in (line.policy for line in self.lines if line.policy is not None):
            choose(dict.fromkeys(("evolutionary", *READINGS)), policy, f"{self.name}: a line's policy")
            if self.game is None:
                raise ConfigError(f"{self.name}: policy = {policy!r} in a line: name the game that is played")
        if self.baseline is not None:
            refuse_unknown([self.baseline], lines, f"{self.name}.baseline")
        for key in ("bars", "published_by"):
            for measure in getattr(self, key):
                choose(dict.fromkeys(MEASURES), measure, f"{self.name}.{key}")
        if self.baseline is None and "speedup" in (*self.bars, *(claim.measure for claim in self.claims)):
            raise ConfigError(f"{self.name}: 'speedup' is over a line: name it as baseline")
        for claim in self.claims:
            check_named(claim.says, "line", sorted(claim.names), lines)
            check_named(claim.says, "panel", claim.panels, panels)
        for panel in self.panels:
            if panel.at is not None:
                choose(self.scales, panel.at, f"panel {panel.name}'s at")
            refuse_unknown(panel.without, lines, f"panel {panel.name}'s without")
            refuse_unknown(panel.lines, lines, f"panel {panel.name}'s lines")
            for line, layer in panel.lines.items():
                checked(convert_table(layer, f"panel {panel.name}'s lines.{line}"), f"{panel.name}.{line}")
            refuse_unknown(panel.published, lines, f"panel {panel.name}'s published")
            self._check_fewer(panel)
        check_seeds(self.seeds, f"{self.name}.seeds")
        for claim in self.claims:
            for panel in self.panels:
                if not claim.panels or panel.name in claim.panels:
                    claim.check_bounds(panel.metric)
        self._check_drops()

    def _check_fewer(self, panel: Panel) -> None:
        """A line is held to some of a panel's seeds: at no scale to none of them, or to others."""
        refuse_unknown(panel.fewer, [line.name for line in self.lines], f"panel {panel.name}'s fewer")
        for line, seeds in panel.fewer.items():
            where = f"panel {panel.name}'s fewer.{line}"
            if line in panel.without:
                raise ConfigError(f"{where}: the panel does without that line; take it out of one of them")
            for scale in self._scales_of(panel):
                own = panel.seeds or self.seeds_at(scale)
                if strange := sorted(set(seeds) - set(own)):
                    raise ConfigError(
                        f"{where} has seed {strange[0]}, but at {scale} scale the panel's seeds are "
                        f"{', '.join(map(str, own))}: name some of these, or give the panel seeds of its own"
                    )

    def _check_drops(self) -> None:
        """What a panel or a line drops is there to be dropped, in some run of it."""
        every = [(scale, panel) for panel in self.panels for scale in self._scales_of(panel)]
        runs = [
            (s, panel, line) for s, panel in every for line in self.lines if line.name not in panel.without
        ]
        parts: list[tuple[str, Panel | Line]] = [("panel", panel) for panel in self.panels]
        for what, part in [*parts, *(("line", line) for line in self.lines)]:
            for i, setting in enumerate(part.drops):
                where = f"{what} {part.name}'s drops[{i}]"
                section, _, key = setting.partition(".")
                if section not in SECTIONS or not key:
                    raise ConfigError(f"{where} = {setting!r}: write section.key, such as model.hidden")
                below = [self._merged(*run) for run in runs if part is run[1] or part is run[2]]
                if below and not any(key in merged.get(section, {}) for merged in below):
                    known = {f"{section}.{name}" for merged in below for name in merged.get(section, {})}
                    raise ConfigError(
                        f"{where}: there is no {setting} below it to drop.{nearest(setting, known)}"
                    )

    def _scales_of(self, panel: Panel) -> list[str]:
        """The scales at which a panel is run."""
        return [scale for scale in self.scales if panel.at in (None, scale)]


def case_of(leaver: int) -> str:
    """What a run is called, among others of its seed, in which this client leaves."""
    return f"client {leaver} leaves"


def names() -> tuple[str, ...]:
    """The reproductions that come with unknot."""
    folder = files("unknot") / "reproduce" / "papers"
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if _is_toml(item.name)))


def load(name: str) -> Reproduction | GameReproduction:
    """A reproduction by its name, or from a file of one's own: of federated runs, or of games."""
    if _is_toml(name):
        table, name = read_toml(name), Path(name).stem
    elif name in names():
        table = _table_of(name)
    else:
        raise ConfigError(f"there is no reproduction {name!r}{_instead(name)}.{nearest(name, names())}")
    kinds: dict[str, type[Reproduction | GameReproduction]] = {"runs": Reproduction, "game": GameReproduction}
    return choose(kinds, table.pop("kind", "runs"), f"{name}.kind").of(table, name)


def _instead(name: str) -> str:
    """What there is of that name, if it is no reproduction."""
    if isdir(name):
        return ": that is a folder; name the TOML file in it"
    return (
        ": the file of that name is no TOML file; one of a reproduction ends in .toml" if exists(name) else ""
    )


@cache
def _division(name: str, draw: int) -> Division:
    plan = load(name)
    if not isinstance(plan, GameReproduction):
        raise ConfigError(f"game = {name!r}, but that is no game: name one such as incentive-fig4a")
    return Division.of(plan, draw)


def _table_of(name: str) -> dict[str, Any]:
    return tomllib.loads((files("unknot") / "reproduce" / "papers" / f"{name}.toml").read_text())


def _like(table: Table, name: str) -> dict[str, Any]:
    """A reproduction with the setting of another: what it says itself comes on top.

    Of panels and lines it has those that it names (all, if it names none), each on top of the other's
    of that name; what the other says of lines that are not here is left out. Titles and claims are its own.
    The other's runs are taken over where they are the same.
    """
    other = convert(table["like"], str, f"{name}: like")
    if other not in names():
        raise ConfigError(
            f"{name}: like = {other!r}, but there is no such reproduction.{nearest(other, names())}"
        )
    below = _table_of(other)
    if below.get("kind", "runs") != "runs":
        raise ConfigError(f"{name}: like = {other!r}, but that is a game: games cannot be taken over by like")
    if "like" in below:
        below = _like(below, other)
    own = {key: value for key, value in table.items() if key != "like"}
    kept = {key: value for key, value in below.items() if key not in ("claims", "bars", "uses")}
    merged = {**merge(kept, own), "uses": [other, *below.get("uses", []), *own.get("uses", [])]}
    for key in ("panel", "line"):
        known = {part["name"]: part for part in below.get(key, [])}
        named = convert_tables(own.get(key) or below.get(key, []), key)
        merged[key] = [on_top(known.get(part.get("name"), {}), part) for part in named]
    return _with_its_lines(merged, own)


def _with_its_lines(merged: dict[str, Any], own: Table) -> dict[str, Any]:
    """Without what a file did not say itself of lines that it does not have."""
    lines = {line.get("name") for line in merged["line"]}
    if "baseline" not in own and merged.get("baseline") not in lines:
        merged.pop("baseline", None)
    said = {part.get("name"): part for part in own.get("panel", [])}
    for panel in merged["panel"]:
        mine = said.get(panel.get("name"), {})
        for key in ("lines", "published", "fewer"):
            if isinstance(there := panel.get(key), dict):
                here = lines | set(mine.get(key, ()))
                panel[key] = {line: value for line, value in there.items() if line in here}
        if "without" in panel and "without" not in mine:
            panel["without"] = [line for line in panel["without"] if line in lines]
    return merged


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _claim(table: Table, where: str) -> Claim:
    """``order`` as lists of lists: a name alone is a list of one."""
    if isinstance(order := table.get("order"), list):
        table = {**table, "order": [group if isinstance(group, list) else [group] for group in order]}
    return filled(Claim, table, where)
