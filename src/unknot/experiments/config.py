"""An experiment as a value: what a TOML file says, checked, before anything is loaded.

A file has the sections ``[data]``, ``[model]``, ``[train]``, ``[federation]``, ``[select]``, ``[clock]``,
``[method]``, ``[engine]``, ``[scenario]`` and any number of ``[[request]]``. Every key that a section
may have is a field of the value that it becomes; anything else is an error that names the nearest
known key.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unknot.core.errors import ConfigError, RequestError
from unknot.core.fields import (
    choose,
    convert,
    field_names,
    fill,
    read_toml,
    refuse_unknown,
    split_by_owner,
)
from unknot.core.recipe import SGD, AdaHessian, Adam, AdamW, Optimizer, Recipe
from unknot.core.requests import Erase, Moment, Request, Target, erase, join
from unknot.core.selection import WHEN
from unknot.data import PARTITIONS, Dirichlet, Partition, make_partition
from unknot.data.corrupt import CORRUPTIONS
from unknot.federation import (
    Buffered,
    Clock,
    Constant,
    FedAvg,
    FedBuff,
    Length,
    Method,
    Pareto,
    Setup,
    Synchronous,
    Trace,
    Uniform,
)
from unknot.select import DQN, AtRandom, Balanced, DQNSettings, KCenter, Policy, Selector
from unknot.unlearn import METHODS, RFS

OPTIMIZERS: dict[str, type] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "adahessian": AdaHessian}
PACES: dict[str, type] = {"synchronous": Synchronous, "buffered": Buffered}
AGGREGATES: dict[str, type] = {"fedavg": FedAvg, "fedbuff": FedBuff}
SLOWNESS: dict[str, type] = {"constant": Constant, "uniform": Uniform, "pareto": Pareto, "trace": Trace}


@dataclass(frozen=True)
class DataSpec:
    """Which data set, and who holds what of it.

    `test` says what is tested on: "all" of the set's test samples, or those that were dealt to the
    "clients" at the start, leavers and newcomers included. `corrupt` names clients whose training
    data is made worthless, by `corruption` (see `unknot.data.corrupt`).
    """

    name: str = "digits"
    partition: Partition = field(default_factory=lambda: Dirichlet(clients=20, alpha=0.5))
    validation: int | float = 0.1
    test_samples: int | None = None
    test: str = "all"
    corrupt: tuple[int, ...] = ()
    corruption: str = "noise"
    root: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("all", "clients")), self.test, "data.test")
        choose(dict.fromkeys(CORRUPTIONS), self.corruption, "data.corruption")


@dataclass(frozen=True)
class ModelSpec:
    """Which network; options are those of `unknot.models.build`. `initial` is the file of a saved model."""

    name: str = "mlp"
    initial: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineSpec:
    """What trains: `stacked` (fast) or `loop` (the plain oracle), and on what.

    `tf32` lets a GPU round the factors of products to 10 bits, several times faster.
    """

    name: str = "stacked"
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None
    path: str = "auto"
    rows: int | None = None
    tf32: bool = False

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("stacked", "loop")), self.name, "engine.name")
        choose(dict.fromkeys(("float32", "float64")), self.dtype, "engine.dtype")


@dataclass(frozen=True)
class Measures:
    """How often, and on what, a run is measured; fields of `Setup`."""

    evaluate_every: int = 1
    evaluate_on: tuple[str, ...] = ("validation",)


@dataclass(frozen=True)
class Experiment:
    """Everything that a run is made of."""

    name: str = "experiment"
    data: DataSpec = field(default_factory=DataSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    setup: Setup = field(default_factory=Setup)
    method: Method = field(default_factory=RFS)
    length: Length = field(default_factory=lambda: Length(rounds=20))
    engine: EngineSpec = field(default_factory=EngineSpec)
    requests: tuple[Request, ...] = ()
    thresholds: tuple[float, ...] = ()
    """Accuracies whose reaching after a request is reported."""
    table: Mapping[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What it was read from, for the record of a run; a changed copy has none, for it would not be true."""

    @property
    def seed(self) -> int:
        return self.setup.seed

    @staticmethod
    def read(path: str | Path, overrides: Iterable[str] = ()) -> Experiment:
        """From a TOML file, with ``section.key=value`` overrides."""
        table = read_toml(path)
        table.setdefault("name", Path(path).stem)
        return Experiment.of(table, overrides)

    @staticmethod
    def of(table: Mapping[str, Any], overrides: Iterable[str] = ()) -> Experiment:
        """From nested dictionaries as TOML gives them."""
        merged = apply_overrides(table, overrides)
        sections = ("data", "model", "train", "federation", "select", "clock", "method", "engine", "scenario")
        refuse_unknown(merged, ["name", "seed", *sections, "request"], "the file's")
        part = {name: _table(merged.get(name, {}), name) for name in sections}
        federation, length = _federation(part["federation"])
        setup = Setup(
            recipe=_recipe(part["train"]),
            clock=_clock(part["clock"]),
            select_when=choose({w: w for w in WHEN}, part["select"].pop("when", "always"), "select.when"),
            select=_select(part["select"]),
            seed=convert(merged.get("seed", 0), int, "seed"),
            **federation,
        )
        made = Experiment(
            name=convert(merged.get("name", "experiment"), str, "name"),
            data=_data(part["data"]),
            model=_model(part["model"]),
            setup=setup,
            method=_method(part["method"]),
            length=length,
            engine=fill(EngineSpec, part["engine"], "engine"),
            requests=tuple(
                _request(item, f"request[{i}]") for i, item in enumerate(merged.get("request", []))
            ),
            thresholds=_thresholds(part["scenario"]),
        )
        object.__setattr__(made, "table", merged)
        return made


def apply_overrides(table: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy with ``section.key=value`` set; values are TOML, and bare words are texts."""
    merged = {name: dict(part) if isinstance(part, dict) else part for name, part in table.items()}
    for override in overrides:
        path, equals, text = override.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names) or len(names) > 2:
            raise ConfigError(f"--set takes section.key=value, not {override!r}")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        target = merged
        for name in names[:-1]:
            target = target.setdefault(name, {})
            if not isinstance(target, dict):
                raise ConfigError(f"--set {override}: {name} is not a section")
        target[names[-1]] = value
    return merged


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a section: [{where}]")
    return dict(value)


def _pick(table: dict[str, Any], key: str, options: Mapping[str, type], default: str, where: str) -> type:
    """The type that a section's choice names; its keys for other choices are explained as such."""
    name = table.pop(key, default)
    chosen = choose(options, name, f"{where}.{key}")
    mine = set(field_names(chosen))
    for other, cls in options.items():
        for extra in set(field_names(cls)) & set(table) - mine:
            if not any(extra in field_names(fixed) for fixed in _FIXED.get(where, ())):
                raise ConfigError(f"{where}.{extra} belongs to {key} = {other!r}, but {key} is {name!r}")
    return chosen


# Values that take their keys from a section whatever else it chooses.
_FIXED: dict[str, tuple[type, ...]] = {
    "train": (Recipe,),
    "federation": (Length, Measures),
    "clock": (Clock,),
}


def _data(table: dict[str, Any]) -> DataSpec:
    from unknot.data.registry import options_of

    kind = table.pop("partition", "dirichlet")
    partition = choose(PARTITIONS, kind, "data.partition")
    fixed = [name for name in field_names(DataSpec) if name not in ("partition", "options")]
    name = convert(table.get("name", "digits"), str, "data.name")
    owners = {"fixed": fixed, "partition": field_names(partition), "set": options_of(name)}
    parts = split_by_owner(table, owners, "data")
    if kind == "dirichlet":
        parts["partition"] = {"clients": 20, "alpha": 0.5, **parts["partition"]}
    return fill(
        DataSpec,
        {**parts["fixed"], "partition": make_partition(kind, **parts["partition"]), "options": parts["set"]},
        "data",
    )


def _model(table: dict[str, Any]) -> ModelSpec:
    name = convert(table.pop("name", "mlp"), str, "model.name")
    initial = convert(table.pop("initial", None), str | None, "model.initial")
    return ModelSpec(name, initial, {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})


def _recipe(table: dict[str, Any]) -> Recipe:
    kind = _pick(table, "optimizer", OPTIMIZERS, "sgd", "train")
    recipe = [name for name in field_names(Recipe) if name != "optimizer"]
    parts = split_by_owner(table, {"optimizer": field_names(kind), "recipe": recipe}, "train")
    optimizer: Optimizer = fill(kind, parts["optimizer"], "train")
    return dataclasses.replace(fill(Recipe, parts["recipe"], "train"), optimizer=optimizer)


def _federation(table: dict[str, Any]) -> tuple[dict[str, Any], Length]:
    """What a section says of the setup, and how long the run is."""
    pace = _pick(table, "pace", PACES, "synchronous", "federation")
    usual = "fedbuff" if pace is Buffered else "fedavg"
    aggregate = _pick(table, "aggregate", AGGREGATES, usual, "federation")
    kinds = {"pace": pace, "aggregate": aggregate, "length": Length, "measures": Measures}
    parts = split_by_owner(table, {name: field_names(cls) for name, cls in kinds.items()}, "federation")
    if parts["length"].get("rounds") is None and parts["length"].get("seconds") is None:
        parts["length"]["rounds"] = 20
    made: dict[str, Any] = {name: fill(cls, parts[name], "federation") for name, cls in kinds.items()}
    measures: Measures = made["measures"]
    return {"pace": made["pace"], "aggregate": made["aggregate"], **vars(measures)}, made["length"]


def _clock(table: dict[str, Any]) -> Clock:
    kind = _pick(table, "slowness", SLOWNESS, "constant", "clock")
    clock = [name for name in field_names(Clock) if name != "slowness"]
    parts = split_by_owner(table, {"slowness": field_names(kind), "clock": clock}, "clock")
    return dataclasses.replace(
        fill(Clock, parts["clock"], "clock"), slowness=fill(kind, parts["slowness"], "clock")
    )


def _method(table: dict[str, Any]) -> Method:
    chosen = choose(METHODS, table.pop("name", "rfs"), "method.name")
    for key in set(table) - set(field_names(chosen)):
        owners = [name for name, other in METHODS.items() if key in field_names(other)]
        if owners:
            raise ConfigError(
                f"method.{key} belongs to {', '.join(owners)}, but method.name is {chosen.name!r}"
            )
    if "retrain" in field_names(chosen) and "retrain" in table:
        inner = table["retrain"]
        table["retrain"] = _method({"name": inner} if isinstance(inner, str) else _table(inner, "retrain"))
    if "optimizer" in field_names(chosen):
        kind = _pick(table, "optimizer", OPTIMIZERS, "adahessian", "method")
        own = [name for name in field_names(chosen) if name != "optimizer"]
        parts = split_by_owner(table, {"optimizer": field_names(kind), "own": own}, "method")
        table = {**parts["own"], "optimizer": fill(kind, parts["optimizer"], "method")}
    return fill(chosen, table, "method")


def _select(table: dict[str, Any]) -> Selector:
    name = table.pop("name", "uniform")
    if name == "dqn":
        policy = convert(table.pop("policy", None), str | None, "select.policy")
        settings = fill(DQNSettings, table, "select")
        return DQN(settings, None if policy is None else Policy.load(policy, settings))
    if name == "k-center":
        refuse_unknown(table, ("groups",), "select")
        return KCenter(convert(table.get("groups", KCenter.groups), int, "select.groups"))
    choose(dict.fromkeys(("uniform", "balanced", "k-center", "dqn")), name, "select.name")
    refuse_unknown(table, (), "select")
    return Balanced() if name == "balanced" else AtRandom()


def _thresholds(table: dict[str, Any]) -> tuple[float, ...]:
    refuse_unknown(table, ("thresholds",), "scenario")
    values: tuple[float, ...] = convert(table.get("thresholds", []), tuple[float, ...], "scenario.thresholds")
    for value in values:
        if not 0 < value <= 1:
            raise ConfigError(f"scenario.thresholds are shares: above 0 and at most 1, not {value}")
    return values


def _request(item: object, where: str) -> Request:
    table = _table(item, where)
    refuse_unknown(table, ("erase", "join", "samples", "round", "time"), where)
    if ("erase" in table) == ("join" in table):
        raise ConfigError(f"{where} needs 'erase' or 'join', and not both")
    kind = "erase" if "erase" in table else "join"
    clients, samples = table[kind], table.get("samples")
    if samples is not None and kind == "join":
        raise ConfigError(f"{where}: samples are erased, not joined")
    if samples is not None and isinstance(clients, list) and len(clients) != 1:
        raise ConfigError(f"{where}: samples belong to one client; write a request for each")
    try:
        moment = {"round": table.get("round"), "time": table.get("time")}
        if kind == "join":
            return join(clients, **moment)
        if samples is None:
            return erase(clients, **moment)
        [client] = clients if isinstance(clients, list) else [clients]
        return Erase((Target(client, samples),), Moment(**moment))
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
