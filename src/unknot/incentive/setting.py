"""A game as a file describes it: which keys there are, and what is meant where one is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unknot.core.errors import ConfigError, nearest
from unknot.core.keys import Key
from unknot.incentive.game import Floats, Game, loss, numbers, shares
from unknot.incentive.policies import Crowd, PolicyResult, compare

NEEDED = ("psi", "zeta", "f_u", "f_c", "data")
COMPUTATION = ("tau", "alpha", "eta", "f", "d")
STORAGE = ("tau_s", "s", "c_s")
# The paper's, section 6.1.
DEFAULTS: Mapping[str, Any] = {
    "phi": 0.5,
    "delta": 0.001,
    "computation": 0.1,
    "storage": 0.1,
    "periods": 300,
    "clients": 30,
    "start": None,
    "seed": 0,
}


@dataclass(frozen=True)
class Setting:
    """A game, its clients, where they begin, and for how long."""

    game: Game
    periods: int
    start: Floats
    clients: tuple[int, ...]
    """How many there are of each population: random, round-robin and greedy assign them one by one."""
    seed: int

    @staticmethod
    def of(values: Mapping[str, Any], where: str = "the game") -> Setting:
        """From the keys of a file, each checked."""
        _refuse_unknown(values, [*NEEDED, *DEFAULTS], where)
        for name in NEEDED:
            if name not in values:
                raise ConfigError(f"{where}: {name} is missing: give a list of numbers")
        said = {**DEFAULTS, **values}
        for name in (*NEEDED, "start"):
            if said[name] is not None and not isinstance(said[name], list | tuple):
                raise ConfigError(f"{where}: {name} is {said[name]!r}: give a list")
        try:
            phi = float(loss(said["phi"]))
            game = Game.of(
                **{name: said[name] for name in (*NEEDED, "delta")},
                phi=phi,
                computation=_computation(said["computation"]),
                storage=_storage(said["storage"], phi),
            )
            if not isinstance(said["clients"], list | tuple):
                said["clients"] = [said["clients"]] * game.populations
            sizes = tuple(_whole("clients", size, 1) for size in said["clients"])
            periods, seed = _whole("periods", said["periods"], 1), _whole("seed", said["seed"], None)
            setting = Setting(game, periods, shares(game, said["start"]), sizes, seed)
            setting.crowd()
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        return setting

    @property
    def key(self) -> Key:
        return Key.root(self.seed).child("game")

    def crowd(self) -> Crowd:
        return Crowd.of(self.game, self.clients, self.key)

    @cached_property
    def outcomes(self) -> dict[str, PolicyResult]:
        """All four policies, by name."""
        return compare(self.game, self.crowd(), self.periods, self.start)


def _computation(given: Any) -> Floats:
    """C_cp, or (τ / 2) α η f² d."""
    if not isinstance(given, Mapping):
        return numbers("computation", given)
    factor = _factors("computation", given, COMPUTATION)
    return factor["tau"] / 2 * factor["alpha"] * factor["eta"] * factor["f"] ** 2 * factor["d"]


def _storage(given: Any, phi: float) -> Floats:
    """C_cs, or τ_s S / (1 − φ) c_s."""
    if not isinstance(given, Mapping):
        return numbers("storage", given)
    factor = _factors("storage", given, STORAGE)
    return factor["tau_s"] * factor["s"] / (1 - phi) * factor["c_s"]


def _factors(name: str, table: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Floats]:
    _refuse_unknown(table, known, name)
    missing = [factor for factor in known if factor not in table]
    if missing:
        raise ConfigError(f"{name}.{missing[0]} is missing: its factors are {', '.join(known)}")
    return {factor: numbers(f"{name}.{factor}", table[factor]) for factor in known}


def _whole(name: str, value: Any, least: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        told = "" if least is None else f", {least} or more"
        raise ConfigError(f"{name} is {value!r}: it must be a whole number{told}")
    return value


def _refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    options = list(known)
    for name in values:
        if name not in options:
            raise ConfigError(f"unknown key {name!r} in {where}.{nearest(name, options)}")
