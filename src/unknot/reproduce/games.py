"""A reproduction that is no federated run: the game of incentives, at many settings drawn from ranges.

A file says ``kind = "game"``. ``[game]`` is what a file of ``unknot game`` has, but for the numbers that are
drawn: their ranges are in ``[draw]``. Each ``[[panel]]`` goes ``over`` periods, learning rates or clients,
each ``[[line]]`` is a policy. Draw 3 is the same game at any scale, in all files with the same ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from unknot.core.errors import ConfigError
from unknot.core.fields import choose, refuse_unknown
from unknot.core.keys import Key
from unknot.core.registry import filled
from unknot.experiments.tables import apply_overrides
from unknot.incentive import RANGES, READINGS, Crowd, Game, Setting, drawn
from unknot.incentive.game import Floats
from unknot.reproduce.parts import SCALES, Table, check_named, convert_table, convert_tables, no_scale

OVER = ("periods", "rates", "clients", "settling")
TRENDS = ("falls", "rises")


@dataclass(frozen=True)
class Policy:
    """A line: one of the policies, by its name."""

    name: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Sweep:
    """A panel: `over` periods, the total utility; over learning rates, that in a `period`; over clients, that
    divided by their number; over rates again, when the game is ``settling`` within so many periods.
    """

    name: str
    title: str
    over: str
    values: tuple[float, ...] = ()
    period: int = 50
    note: str = ""

    def __post_init__(self) -> None:
        choose(dict.fromkeys(OVER), self.over, f"panel {self.name}'s over")
        if (self.over == "periods") == bool(self.values):
            raise ConfigError(f"panel {self.name} goes over {self.over}: give values for all but periods")
        if self.period < 1 or not all(0 < value < math.inf for value in self.values):
            raise ConfigError(
                f"panel {self.name}: its period is 1 or more, its values are above 0 and finite"
            )
        if self.over == "clients" and any(value != int(value) for value in self.values):
            raise ConfigError(f"panel {self.name}: clients are whole numbers")


@dataclass(frozen=True)
class GameClaim:
    """What the paper says of a panel, put to the question in every draw.

    The line `best` is, at the end of the panel, above each item of `than` (a list in it: above all of these);
    each of `lines` has settled by the period `settle`, or has the `trend` all along, or its equilibrium is
    `unique`.
    """

    says: str
    panel: str
    best: str | None = None
    than: tuple[tuple[str, ...], ...] = ()
    settle: int | None = None
    trend: str | None = None
    unique: bool = False
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        forms = (self.best, self.settle is not None, self.trend, self.unique)
        if sum(map(bool, forms)) != 1:
            raise ConfigError(f"a claim has one of best, settle, trend and unique: {self.says!r}")
        if bool(self.than) != bool(self.best) or bool(self.lines) == bool(self.best):
            raise ConfigError(f"a claim has best and than, or lines: {self.says!r}")
        if not all(self.than):
            raise ConfigError(f"a claim's than has a list without a line: {self.says!r}")
        if self.trend is not None:
            choose(dict.fromkeys(TRENDS), self.trend, "claims.trend")

    @property
    def names(self) -> set[str]:
        best = () if self.best is None else (self.best,)
        return {*self.lines, *best, *(name for group in self.than for name in group)}


@dataclass(frozen=True)
class Ranges:
    """What the numbers of a game are drawn from, evenly."""

    psi: tuple[float, float]
    zeta: tuple[float, float]
    f_u: tuple[float, float]
    f_c: tuple[float, float]
    data: tuple[float, float]
    servers: int = 3
    populations: int = 3

    def __post_init__(self) -> None:
        for name in RANGES:
            low, high = getattr(self, name)
            if not -math.inf < low <= high < math.inf:
                raise ConfigError(f"{name} = [{low:g}, {high:g}] is no range: write the least first, finite")


@dataclass(frozen=True)
class Many:
    """A scale: how many games are drawn, and roughly how long that takes."""

    draws: int
    takes: str = ""


@dataclass(frozen=True)
class GameReproduction:
    """What of a paper is reproduced by playing games, and how."""

    name: str
    title: str
    figure: str
    claim: str
    panels: tuple[Sweep, ...]
    lines: tuple[Policy, ...]
    draw: Ranges
    paper: str = ""
    claims: tuple[GameClaim, ...] = ()
    game: Table = field(default_factory=dict)
    scales: Mapping[str, Many] = field(default_factory=dict)

    @staticmethod
    def of(table: Table, name: str) -> GameReproduction:
        if "like" in table:
            raise ConfigError(f"{name}.like: games cannot be taken over by like; copy what is alike")
        parts: dict[str, Any] = {key: table[key] for key in table if key not in ("kind", "scale", *SEVERAL)}
        parts["draw"] = _ranges(table.get("draw", {}), name)
        parts["game"] = convert_table(table.get("game", {}), f"{name}.game")
        scales = convert_table(table.get("scale", {}), "scale")
        parts["scales"] = {
            key: filled(Many, convert_table(part, f"scale.{key}"), f"scale.{key}")
            for key, part in scales.items()
        }
        for key, (plural, cls) in SEVERAL.items():
            items = enumerate(convert_tables(table.get(key, []), key))
            parts[plural] = tuple(filled(cls, _groups(item), f"{key}[{i}]") for i, item in items)
        found = filled(GameReproduction, {**parts, "name": name}, name)
        found._check()
        return found

    def changed(self, overrides: Sequence[str]) -> GameReproduction:
        """With ``game.phi=0.3`` or ``draw.psi=[50, 100]`` set."""
        ranges = asdict(self.draw)
        table = apply_overrides({"game": self.game, "draw": ranges}, overrides)
        refuse_unknown(table, ("game", "draw"), f"--set for {self.name}")
        game = convert_table(table["game"], f"{self.name}.game")
        made = replace(self, game=game, draw=_ranges(table["draw"], self.name))
        made._check()
        return made

    def draws_at(self, scale: str, draws: Iterable[int] | None = None) -> tuple[int, ...]:
        if scale not in self.scales:
            raise no_scale(self.name, scale, self.scales)
        return tuple(dict.fromkeys(range(self.scales[scale].draws) if draws is None else draws))

    @property
    def setting(self) -> Setting:
        """What all draws have in common, at the least of each range."""
        many = {name: self.draw.populations if name == "data" else self.draw.servers for name in RANGES}
        least = {name: [getattr(self.draw, name)[0]] * count for name, count in many.items()}
        refuse_unknown(self.game, OWN, f"{self.name}.game")
        return Setting.of({**least, **self.game}, f"{self.name}.game")

    def drawn(self, draws: Sequence[int]) -> tuple[Game, Crowd, Floats]:
        """The games of these draws, as one; their clients, and where they begin."""
        setting = self.setting
        same = {name: getattr(setting.game, name) for name in ("phi", "delta", "computation", "storage")}
        keys = [Key.root(0).child("draw", draw) for draw in draws]
        ranges = {name: getattr(self.draw, name) for name in RANGES}
        game = drawn(keys, ranges, self.draw.servers, self.draw.populations, **same)
        start = np.broadcast_to(setting.start, game.even.shape).copy()
        return game, Crowd.of(game, setting.clients, keys), start

    def config(self, draw: int) -> dict[str, Any]:
        """What decides the outcome of a draw, as JSON has it: where this is the same, so is that."""
        panels: dict[str, dict[str, Any]] = {
            p.name: {"over": p.over, "values": list(p.values), "period": p.period} for p in self.panels
        }
        for panel in panels.values():
            if panel["over"] == "clients":
                panel["data"] = "clients × samples"
        ranges = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self.draw).items()}
        lines = [line.name for line in self.lines]
        return {"draw": draw, "game": dict(self.game), "from": ranges, "panels": panels, "lines": lines}

    def places(self, panel: Sweep) -> tuple[float, ...]:
        """What a panel goes along."""
        if panel.over == "periods":
            return tuple(float(t) for t in range(1, self.setting.periods + 1))
        return panel.values

    def _check(self) -> None:
        lines, panels = ([part.name for part in parts] for parts in (self.lines, self.panels))
        for names, what in ((lines, "line"), (panels, "panel")):
            if len(set(names)) != len(names) or not names:
                raise ConfigError(
                    f"{self.name}: every {what} needs a name of its own, and there is at least one"
                )
        refuse_unknown(lines, ("evolutionary", *READINGS), f"{self.name}.line")
        for claim in self.claims:
            check_named(claim.says, "panel", [claim.panel], panels)
            (panel,) = (panel for panel in self.panels if panel.name == claim.panel)
            known = ["evolutionary"] if panel.over == "settling" else lines  # the others know no rate
            check_named(claim.says, "line", sorted(claim.names), known)
            if claim.settle is not None and panel.over != "periods":
                raise ConfigError(f"claims.settle is about a panel over periods, not {panel.name!r}")
            self._check_length(claim, panel)
        refuse_unknown(self.scales, SCALES, "scale")
        for scale, size in self.scales.items():
            if size.draws < 1:
                raise ConfigError(f"scale.{scale}.draws is {size.draws}: it must be 1 or more")
        self.setting  # noqa: B018 - a mistake in [game] is told before anything is played

    def _check_length(self, claim: GameClaim, panel: Sweep) -> None:
        """What holds whatever comes out is no claim: all has settled by the end, one value has any trend."""
        periods = self.setting.periods
        if claim.settle is not None and not 0 < claim.settle < periods:
            raise ConfigError(
                f"claims.settle is {claim.settle}, but {self.name} plays {periods} periods: it must be 1 or "
                f"more and less than game.periods"
            )
        if claim.trend is not None and len(self.places(panel)) < 2:
            raise ConfigError(
                f"claims.trend is about two values or more, and panel {panel.name!r} has one: {claim.says!r}"
            )


OWN = ("phi", "delta", "computation", "storage", "periods", "clients", "start")
SEVERAL: Mapping[str, tuple[str, type]] = {
    "panel": ("panels", Sweep),
    "line": ("lines", Policy),
    "claims": ("claims", GameClaim),
}


def _ranges(value: object, name: str) -> Ranges:
    return filled(Ranges, convert_table(value, f"{name}.draw"), f"{name}.draw")


def _groups(item: Table) -> Table:
    """``than`` as lists of lists: a name alone is a list of one."""
    if not isinstance(item.get("than"), list):
        return item
    return {**item, "than": [group if isinstance(group, list) else [group] for group in item["than"]]}
