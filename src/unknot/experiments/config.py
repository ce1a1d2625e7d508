"""An experiment as a value: what a TOML file says, checked, before anything is loaded.

A file has the sections ``[data]``, ``[model]``, ``[train]``, ``[federation]``, ``[select]``, ``[clock]``,
``[method]``, ``[task]``, ``[engine]``, ``[scenario]`` and any number of ``[[request]]``. Every key that a
section may have is an option of a thing that it becomes; anything else is an error that names the nearest
known key. Things are named as `unknot.core.registry` knows them.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from unknot.core.errors import ConfigError, RequestError, UnknotError, nearest
from unknot.core.fields import EACH, choose, convert, field_names, read_toml, refuse_unknown
from unknot.core.metrics import USUAL, as_metrics
from unknot.core.registry import (
    Option,
    Registry,
    as_written,
    beside,
    changed,
    datasets,
    engines,
    filled,
    methods,
    models,
    named_paths,
    options_of,
    paces,
    selectors,
    shared,
    taken,
    whole_paths,
)
from unknot.core.requests import Erase, Moment, Named, Request, Target, erase, join
from unknot.core.selection import WHEN, Selector
from unknot.core.task import Task
from unknot.core.training import Recipe
from unknot.data.corrupt import CORRUPTIONS
from unknot.data.partition import ByOwner, Dirichlet, Partition
from unknot.federation import (
    Aggregate,
    Buffered,
    Clock,
    FedAvg,
    Length,
    Method,
    Pace,
    Setup,
    Synchronous,
)
from unknot.unlearn.rfs import RFS

T = TypeVar("T")
ERASED = "erased"
"""In a request that a kept run leaves: the numbers of the clients in it that were erased since."""
FOLDER = "folder"
"""The name of data that lies in a folder of your own, with a file a client."""
TEXTS = "texts"
"""The name of a table of texts of your own; a column of it can say who holds what."""
PRETRAINED = "pretrained"
"""The name of language models from files, which bring their tokenizers along."""
FOLDERS_OWN = ("name", "corrupt", "corruption")
"""What a section of such data has beside what says how it is read."""
USUAL_DEAL: Mapping[str, Any] = {"clients": 20, "alpha": 0.5}
"""What a file need not say of the Dirichlet partition, which holds where it names no other."""


@dataclass(frozen=True)
class DataSpec:
    """Which data set, and who holds what of it; with the name "folder", one of your own (`unknot.folder`)."""

    name: str = "digits"
    """The data set (`unknot list data`), or "folder": one of your own, a file a client."""
    partition: Partition = field(default_factory=lambda: Dirichlet(**USUAL_DEAL))
    """Who holds what of it (`unknot list partitions`)."""
    validation: int | float = 0.1
    """Samples that the server measures with while it trains: a number, or a share below 1."""
    test_samples: int | None = None
    """Test samples a client, in its own proportions; left out: its part of them."""
    public: int = 0
    """Samples that are nobody's, without targets, which the server may use (distillation)."""
    test: str = "all"
    """What is tested on: "all" test samples, or those dealt to the "clients" at the start."""
    corrupt: Annotated[tuple[int | str, ...], EACH] = ()
    """Clients whose training data is made worthless."""
    corruption: str = "noise"
    """By what: "noise", random "labels", or "zero" for all inputs."""
    root: Path | None = None
    """The folder of the files; left out: those in $UNKNOT_DATA."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the data set itself takes."""

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("all", "clients")), self.test, "data.test")
        choose(dict.fromkeys(CORRUPTIONS), self.corruption, "data.corruption")


@dataclass(frozen=True)
class LoraSpec:
    """What ``[model.lora]`` says: adapters are trained, and the network below them stays as it is."""

    rank: int = 8
    """How many columns an adapter's matrices have."""
    alpha: float | None = None
    """Adapters count alpha / rank; left out: twice the rank."""
    targets: str | tuple[str, ...] | None = None
    """Which linear layers get one: a list of their names, or of the last parts of these; or one pattern for
    the whole name (a regular expression); left out: all but the head of a language model."""
    also: tuple[str, ...] = ()
    """Layers that are trained as a whole; the new head of a pretrained model is, without being named."""
    seed: int | None = None
    """Of the adapters' start; left out: the experiment's."""


@dataclass(frozen=True)
class ModelSpec:
    """Which network, and where it starts."""

    name: str = "mlp"
    """The network (`unknot list models`)."""
    initial: Path | None = None
    """The file of a saved model to start from; left out: a start that the seed draws."""
    lora: LoraSpec | None = None
    """Low-rank adapters, a table of their own (`[model.lora]`); left out: the network is trained itself."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the network itself takes."""

    def __post_init__(self) -> None:
        if not isinstance(self.lora, LoraSpec | None):
            raise ConfigError(
                f"model.lora must be a table, [model.lora] with rank = 8, say, not {self.lora!r}"
            )


@dataclass(frozen=True)
class EngineSpec:
    """What trains, on what, with which options."""

    name: str = "stacked"
    """What trains: "stacked" (all jobs at once), "loop" (one after the other) or "ray" (many machines)."""
    device: str = "cpu"
    """Where: "cpu", "cuda" (of several GPUs "stacked" takes all, "loop" one), "cuda:1" (that one)..."""
    dtype: str = "float32"
    """The precision: "float32" or "float64"."""
    threads: int | None = None
    """How many jobs or stacks are trained side by side; left out: PyTorch's number of threads. Of "ray":
    cores a worker; left out: 1."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the engine itself takes."""

    def __post_init__(self) -> None:
        choose(dict.fromkeys(("float32", "float64")), self.dtype, "engine.dtype")


@dataclass(frozen=True)
class Course:
    """What ``[federation]`` says of how a federation goes on: fields of `Setup`."""

    pace: Pace = field(default_factory=Synchronous)
    """How many clients are asked, and for how many the server waits."""
    aggregate: Aggregate = field(default_factory=FedAvg)
    """How updates become a model; at a buffered pace fedbuff, else fedavg."""
    evaluate_every: int = 1
    """The served model is measured every so many rounds; 0: never."""
    evaluate_on: tuple[str, ...] = ("validation",)
    """On what it is measured then: "validation", "test"."""


@dataclass(frozen=True)
class ScenarioSpec:
    """What ``[scenario]`` says."""

    thresholds: tuple[float, ...] = ()
    """Values of the main metric whose reaching after a request is reported."""


@dataclass(frozen=True)
class RequestSpec:
    """What a ``[[request]]`` says: one of `erase` and `join`, and one of `round` and `time`."""

    erase: int | str | tuple[int | str, ...] | None = None
    """Who is to be forgotten: a client's number or name, or a list of them."""
    join: int | str | tuple[int | str, ...] | None = None
    """Who takes part from then on, and not before."""
    samples: tuple[int, ...] | None = None
    """Of one client to be erased: the ids of the samples that are, and not the client whole."""
    round: int | None = None
    """After which round."""
    time: float | None = None
    """At which simulated second."""


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
        _check_texts(merged, "")
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
                homes = [f"{section}.{name}" for section in _having(name, merged)]
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


def from_anywhere(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same table, in which files and folders are named from the root: those of options that are paths."""
    return each_section(table, lambda _, values, options, registry: whole_paths(options, values, registry))


def paths_in(table: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files and folders that a table names, by section and option: those of options that are paths.

    What is wrong with a section is told when its turn comes: then nothing that it names is opened.
    """
    found: dict[str, list[str]] = {}

    def look(
        section: str, values: Mapping[str, Any], options: Mapping[str, Option], registry: Registry[Any] | None
    ) -> Mapping[str, Any]:
        for place, path in named_paths(options, values, registry):
            found.setdefault(f"{section}.{place}", []).append(path)
        return values

    each_section(table, look, skip=(UnknotError, LookupError, TypeError, ValueError, AttributeError))
    return found


def of_each_client(table: Mapping[str, Any]) -> list[str]:
    """The settings of a table that have a value for each client (`EACH`), by section and option."""
    found: list[str] = []

    def look(
        section: str, values: Mapping[str, Any], options: Mapping[str, Option], registry: Registry[Any] | None
    ) -> Mapping[str, Any]:
        def note(value: object, option: Option, place: str) -> object:
            if option.each and value:
                found.append(f"{section}.{place}")
            return value

        return changed(options, values, note, registry)

    each_section(table, look)
    return found


def each_section(
    table: Mapping[str, Any],
    change: Callable[[str, Mapping[str, Any], Mapping[str, Option], Registry[Any] | None], Mapping[str, Any]],
    skip: tuple[type[Exception], ...] = (),
) -> dict[str, Any]:
    """The same table, in which each section is as `change` gives it, by its name, values and options.

    One whose options cannot be told is left as it is, where the reason is to be skipped.
    """
    folder = convert(table.get("modules", ""), str, "modules")
    with beside(folder) if folder else nullcontext():
        found = dict(table)
        for section in [name for name in _OPTIONS if isinstance(table.get(name), Mapping)]:
            with suppress(*skip):
                found[section] = change(section, table[section], *_OPTIONS[section](table[section]))
        return found


def apply_overrides(table: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy with ``section.key=value`` set; values are TOML, and bare words are texts."""
    merged = copy.deepcopy(dict(table))
    for override in overrides:
        path, equals, text = override.partition("=")
        names = path.strip().split(".")
        if not equals or not all(names):
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


def _having(key: str, table: Mapping[str, Any]) -> list[str]:
    """The sections that have such a key, as the file has them now."""
    found = []
    for section, options_by in _OPTIONS.items():
        said = table.get(section, {})
        given = dict(said) if isinstance(said, Mapping) else {}
        try:
            options, _ = options_by(given)
            given.pop("name", None)
            shared({**given, key: table[key]}, {section: options}, section)
        except ConfigError:  # it has none, or is not right itself: told when its turn comes
            continue
        found.append(section)
    return found


def _check_texts(value: object, where: str) -> None:
    """Texts, and keys, go into files, and not everything that a shell passes on can."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_texts(key, f"a key of {where or 'the file'}")
            _check_texts(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            _check_texts(inner, f"request {i + 1}" if where == "request" else f"{where}[{i}]")
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"{where} is {value!a}: its letter {error.start + 1} is none that UTF-8 has, so no file "
                "could hold it. Write another"
            ) from None


def lies_in(folder: Path, value: object) -> bool:
    """Whether a table names a "module:Thing" that lies in this folder."""
    if isinstance(value, str):
        top = re.match(r"([^\W\d]\w*)[\w.]*:[\w.]+\Z", value)
        return top is not None and any(
            (folder / f"{top[1]}{end}").exists() for end in (".py", "/__init__.py")
        )
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(lies_in(folder, one) for one in inner)


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


_Options = tuple[Mapping[str, Option], Registry[Any] | None]


def _own(*kinds: type) -> Callable[[Mapping[str, Any]], _Options]:
    """The options of a section that is one or more values."""
    return lambda _: ({name: option for kind in kinds for name, option in options_of(kind).items()}, None)


def _chosen(
    registry: Registry[Any], usual: str, kind: type | None = None
) -> Callable[[Mapping[str, Any]], _Options]:
    """Those of a section that names a thing: the thing's, and those that the section has itself."""

    def options(table: Mapping[str, Any]) -> _Options:
        own = {} if kind is None else options_of(kind)
        return {**registry.options(table.get("name", usual)), **own}, registry

    return options


def _of_data(table: Mapping[str, Any]) -> _Options:
    if table.get("name") != FOLDER:
        return _chosen(datasets, DataSpec.name, DataSpec)(table)
    from unknot.data.client_files import folder

    own = options_of(DataSpec)
    return {**options_of(folder, given=0), **{name: own[name] for name in FOLDERS_OWN}}, None


_OPTIONS = {
    "data": _of_data,
    "model": _chosen(models, ModelSpec.name, ModelSpec),
    "train": _own(Recipe),
    "federation": _own(Course, Length),
    "select": _chosen(selectors, "uniform"),
    "clock": _own(Clock),
    "method": _chosen(methods, "rfs"),
    "task": _own(Task),
    "engine": _chosen(engines, EngineSpec.name, EngineSpec),
}
"""What the options of each section are, by what it says."""
_NAMING = ("data", "model", "select", "method", "engine")
"""Sections that name a thing."""
