"""An experiment as a value: what a TOML file says, checked, before anything is loaded.

A file has the sections ``[data]``, ``[model]``, ``[train]``, ``[federation]``, ``[select]``, ``[clock]``,
``[method]``, ``[task]``, ``[engine]``, ``[scenario]`` and any number of ``[[request]]``. Every key that a
section may have is an option of a thing that it becomes; anything else is an error that names the nearest
known key. Things are named as `unknot.core.registry` knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from unknot.core.errors import ConfigError, RequestError, nearest
from unknot.core.fields import choose, convert, field_names, read_toml, refuse_unknown
from unknot.core.metrics import USUAL, as_metrics
from unknot.core.registry import (
    Registry,
    as_written,
    beside,
    datasets,
    engines,
    filled,
    methods,
    models,
    options_of,
    paces,
    selectors,
    shared,
    taken,
)
from unknot.core.requests import Erase, Moment, Named, Request, Target, erase, join
from unknot.core.selection import WHEN, Selector
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.data.partition import ByOwner
from unknot.experiments.specs import (
    FOLDER,
    FOLDERS_OWN,
    TEXTS,
    USUAL_DEAL,
    Course,
    DataSpec,
    EngineSpec,
    ModelSpec,
    RequestSpec,
    ScenarioSpec,
)
from unknot.experiments.tables import apply_overrides, check_texts, having, lies_in
from unknot.federation import Buffered, Clock, Length, Method, Setup
from unknot.unlearn.rfs import RFS

T = TypeVar("T")
ERASED = "erased"
"""In a request that a kept run leaves: the numbers of the clients in it that were erased since."""
_NAMING = ("data", "model", "select", "method", "engine")
"""Sections that name a thing."""


@dataclass(frozen=True)
class Experiment:
    """Everything that a run is made of."""

    name: str = "experiment"
    """What it is called."""
    data: DataSpec = field(default_factory=DataSpec)
    """Which data, and who holds what."""
    model: ModelSpec = field(default_factory=ModelSpec)
    """Which network."""
    setup: Setup = field(default_factory=Setup)
    """How clients train, who is asked when, how updates are put together."""
    method: Method = field(default_factory=RFS)
    """How it forgets."""
    length: Length = field(default_factory=lambda: Length(rounds=20))
    """How long it goes on."""
    engine: EngineSpec = field(default_factory=EngineSpec)
    """What trains."""
    requests: tuple[Request | Named, ...] = ()
    """Who is to be forgotten, who joins, and when."""
    thresholds: tuple[float, ...] = ()
    """Values of the main metric whose reaching after a request is reported."""
    folder: Path | None = field(default=None, compare=False, repr=False)
    """Where a "module:Thing" may lie beside what is installed: where its file lies, or as that says."""
    table: Mapping[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What it was read from, for the record of a run; a changed copy has none, for it would not be true."""

    @property
    def seed(self) -> int:
        return self.setup.seed

    @staticmethod
    def read(path: str | Path, overrides: Iterable[str] = ()) -> Experiment:
        """From the TOML file at `path`, with ``section.key=value`` for `overrides`.

        A "module:Thing" that it names may lie beside the file, or where its `modules` says, which goes from
        there.
        """
        table = apply_overrides(read_toml(path), overrides)
        table.setdefault("name", Path(path).stem)
        folder = Path(path).parent.resolve() / convert(table.pop("modules", ""), str, "modules")
        if lies_in(folder, table):
            table["modules"] = str(folder)
        with beside(folder):
            made = Experiment.of(table)
        object.__setattr__(made, "folder", folder)
        return made

    @staticmethod
    def of(table: Mapping[str, Any], overrides: Iterable[str] = ()) -> Experiment:
        """From a `table`, nested as TOML gives it, with ``section.key=value`` for `overrides`.

        `modules` in it is the folder of "module:Thing".
        """
        merged = apply_overrides(table, overrides)
        folder = convert(merged.get("modules", ""), str, "modules")
        with beside(folder) if folder else nullcontext():
            made = Experiment._of(merged)
        object.__setattr__(made, "folder", Path(folder) if folder else None)
        return made

    @staticmethod
    def _of(merged: dict[str, Any]) -> Experiment:
        check_texts(merged, "")
        sections = (
            "data",
            "model",
            "train",
            "federation",
            "select",
            "clock",
            "method",
            "task",
            "engine",
            "scenario",
        )
        known = ["name", "seed", "modules", *sections, "request"]
        for name, value in merged.items():
            if name not in known:
                what = f"section [{name}]" if isinstance(value, dict) else f"key {name}"
                homes = [f"{section}.{name}" for section in having(name, merged)]
                if homes and not isinstance(value, dict):
                    raise ConfigError(f"unknown {what}: it belongs to a section; write {' or '.join(homes)}")
                raise ConfigError(f"unknown {what}.{nearest(name, known)}")
        if not isinstance(merged.get("request", []), list):
            raise ConfigError("requests are a list: write [[request]] instead of [request]")
        part = {name: _table(merged.get(name, {}), name) for name in sections}
        course, length = _federation(part["federation"])
        task = _task(part["task"])
        parts: dict[str, Any] = {
            "recipe": _recipe(part["train"], task),
            "metrics": task.metrics,
            "clock": filled(Clock, part["clock"], "clock"),
            "select_when": choose({w: w for w in WHEN}, part["select"].pop("when", "always"), "select.when"),
            "select": _select(part["select"]),
            "seed": convert(merged.get("seed", 0), int, "seed"),
        }
        with as_written("federation", options_of(Course), alone=False):
            setup = Setup(**parts, **vars(course))
        made = Experiment(
            name=convert(merged.get("name", "experiment"), str, "name"),
            data=_data(part["data"]),
            model=_spec(ModelSpec, models, part["model"], "model"),
            setup=setup,
            method=methods.make(part["method"].pop("name", "rfs"), part["method"], "method"),
            length=length,
            engine=_engine(part["engine"]),
            requests=tuple(
                _request(item, f"request {i}") for i, item in enumerate(merged.get("request", []), 1)
            ),
            thresholds=_thresholds(part["scenario"], task),
        )
        object.__setattr__(made, "table", merged)
        return made


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        meant = f", and {where}.name={value} in it" if isinstance(value, str) and where in _NAMING else ""
        raise ConfigError(f"{where} must be a section: [{where}]{meant}")
    return dict(value)


def _spec(
    cls: type[T], registry: Registry[Any], table: dict[str, Any], where: str, without: tuple[str, ...] = ()
) -> T:
    """A section that names a thing to be made later: its own keys, and the thing's options beside them.

    Those `without` are not for a file.
    """
    own = {name: option for name, option in options_of(cls).items() if name != "options"}
    name = convert(table.get("name", own["name"].default), str, f"{where}.name")
    theirs = registry.options(name, f"{where}.name")
    free = {key: option for key, option in theirs.items() if key not in own and key not in without}
    parts = shared(table, {"own": own, "options": free}, where, [(f"{where}.name", registry, name)])
    options = registry.typed(name, parts["options"], where, supplied=own)
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return filled(cls, {**parts["own"], "options": plain}, where)


def _engine(table: dict[str, Any]) -> EngineSpec:
    if "tf32" in table:
        raise ConfigError(
            'engine.tf32 is one of several precisions: write precision = "tf32" (or "bf16") in place of '
            "tf32 = true, and leave tf32 = false out"
        )
    return _spec(EngineSpec, engines, table, "engine", without=("task",))


def _recipe(table: dict[str, Any], task: Task) -> Recipe:
    """What is trained by stands in a section of its own, with what models are judged by."""
    if "loss" in table:
        raise ConfigError("train.loss: the loss stands in [task]")
    options = {name: option for name, option in options_of(Recipe).items() if name != "loss"}
    told = taken(options, table, "train", "train")
    with as_written("train", options):
        return Recipe(**told, loss=task.loss)


def _data(table: dict[str, Any]) -> DataSpec:
    """What a Dirichlet partition needs is there unless the file says otherwise."""
    if table.get("name") == FOLDER:
        return _folder(table)
    whose = table.get("name") == TEXTS and "client" in table
    said = table.setdefault("partition", "by-owner" if whose else "dirichlet")
    if said == "dirichlet":
        table = {**USUAL_DEAL, **table}
    elif isinstance(said, dict) and said.get("name") == "dirichlet":
        table["partition"] = {**USUAL_DEAL, **said}
    return _spec(DataSpec, datasets, table, "data")


def _folder(table: dict[str, Any]) -> DataSpec:
    """A folder's files say who holds what: nothing is dealt out."""
    from unknot.data.client_files import folder

    fixed, theirs = FOLDERS_OWN, options_of(folder, given=0)
    deals = {"clients", "alpha", *options_of(DataSpec)} - {*fixed, *theirs}
    if useless := [key for key in table if key in deals]:
        raise ConfigError(
            f"data.{useless[0]} says how a data set is dealt out, and a folder's files say who holds what: "
            "leave it out"
        )
    refuse_unknown(table, [*fixed, *theirs], "data")
    if "path" not in table:
        raise ConfigError("data.path is missing: where is the folder with a file a client?")
    convert(table["path"], str, "data.path")
    for part in ("test", "validation", "public"):
        if not isinstance(said := table.get(part, ""), str):
            raise ConfigError(
                f"data.{part} must be a text where the data is a folder: the name of a file in it, as in "
                f'{part} = "{part}.csv", not {said!r}'
            )
    options = {
        name: convert(value, theirs[name].hint, f"data.{name}")
        for name, value in table.items()
        if name in theirs
    }
    known = {name: value for name, value in table.items() if name in fixed}
    return filled(DataSpec, {**known, "partition": ByOwner(), "options": options}, "data")


def _federation(table: dict[str, Any]) -> tuple[Course, Length]:
    """What a section says of the setup, and how long the run is."""
    pace = table.get("pace", "synchronous")
    name = pace.get("name") if isinstance(pace, dict) else pace
    if name is not None and paces.get(name, "federation.pace") is Buffered:
        table.setdefault("aggregate", "fedbuff")
    parts = shared(table, {"course": options_of(Course), "length": options_of(Length)}, "federation")
    if parts["length"].get("rounds") is None and parts["length"].get("seconds") is None:
        parts["length"]["rounds"] = 20
    return filled(Course, parts["course"], "federation"), filled(Length, parts["length"], "federation")


def _select(table: dict[str, Any]) -> Selector:
    made: Selector = selectors.make(table.pop("name", "uniform"), table, "select")
    return made


def _task(table: dict[str, Any]) -> Task:
    """The loss by name, with its options beside it, and the metrics by name; or by a table each."""
    made = filled(Task, table, "task")
    return replace(made, metrics=as_metrics(made.metrics, "task.metrics"))


def _thresholds(table: dict[str, Any], task: Task) -> tuple[float, ...]:
    """Of the main metric: the first that is named, or the usual one for what the loss is for."""
    metric = (*task.metrics, USUAL[task.loss.kinds[0] if task.loss else "classes"])[0]
    refuse_unknown(table, field_names(ScenarioSpec), "scenario")
    values: tuple[float, ...] = convert(table.get("thresholds", []), tuple[float, ...], "scenario.thresholds")
    for value in values:
        metric.check_goal(value, "scenario.thresholds")
    return values


def _request(item: object, where: str) -> Request | Named:
    if not isinstance(item, dict):
        raise ConfigError(
            f"{where} must be a table, [[request]] with erase = ... or join = ..., not {item!r}"
        )
    table = dict(item)
    if ERASED in table:
        raise RequestError(
            f"{where} names who was erased from the run that left this file (number {table[ERASED]!r}), and "
            "their number may be another client's by now: take the request out"
        )
    refuse_unknown(table, field_names(RequestSpec), where)
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
        if moment["round"] is None and moment["time"] is None:
            raise RequestError("a request comes at a round or at a time: give exactly one of them")
        made: Request | Named
        if kind == "join":
            made = join(clients, **moment)
        elif samples is None:
            made = erase(clients, **moment)
        else:
            [client] = clients if isinstance(clients, list) else [clients]
            if isinstance(client, str):
                made = erase({client: samples}, **moment)
            else:
                made = Erase((Target(client, samples),), Moment(**moment))
        return made
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
