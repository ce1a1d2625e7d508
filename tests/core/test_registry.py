"""Names from anywhere: what can be registered, how it is found, and whose an option of a section is."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytest
import torch

import unknot
from processes import Started
from unknot.core.errors import ConfigError
from unknot.core.registry import Registry, filled, methods, options_of
from unknot.core.registry import sections as sections_module
from unknot.core.registry.options import REQUIRED
from unknot.engine import LoopEngine
from unknot.experiments import Experiment, prepare
from unknot.federation import FedAvg, Guarantee, Method
from unknot.unlearn import METHODS, RFS, Rapid, make_method


class Tool(Protocol):
    @property
    def weight(self) -> float: ...

    def use(self) -> str: ...


@dataclass(frozen=True)
class Hammer:
    size: int = 1
    weight: float = 2.0

    def use(self) -> str:
        return "bang"


class Saw:
    def __init__(self, teeth: int, weight: float = 1.0) -> None:
        self.teeth, self.weight = teeth, weight

    def use(self) -> str:
        return "zip"


@pytest.fixture
def tools():
    registry: Registry[type] = Registry("tool", "unknot.test_tools")
    registry.open({"hammer": Hammer}, Tool)
    yield registry
    sections_module.REGISTRIES.remove(registry)


@pytest.fixture
def clean_methods():
    before = dict(methods._added)
    yield methods
    methods._added.clear()
    methods._added.update(before)


# What is in it -------------------------------------------------------------------------------------


def test_every_kind_has_a_registry_and_a_group_of_entry_points():
    kinds = (
        "methods models datasets partitions optimizers losses metrics schedules selectors aggregators paces "
        "clocks engines"
    )
    for name in kinds.split():
        assert getattr(unknot.registry, name).group == f"unknot.{name}"
    assert {name for name in vars(unknot.registry) if name in kinds.split()} == set(kinds.split())


def test_ours_are_there_under_the_names_that_they_had():
    registry = unknot.registry
    ours = "rfs rapid federaser knot bmt mmt sisa fedcio exact-fun fats standalone"
    assert set(ours.split()) <= set(METHODS) == set(registry.methods.ours)
    assert {"sgd", "adam", "adamw", "adahessian"} <= set(registry.optimizers.ours)
    assert {"fedavg", "fedbuff"} <= set(registry.aggregators.ours)
    assert set(registry.selectors.ours) == {"uniform", "balanced", "k-center", "dqn"}
    assert set(registry.paces.ours) == {"synchronous", "buffered"}
    assert set(registry.clocks.ours) == {"constant", "uniform", "pareto", "trace"}
    assert set(registry.engines.ours) == {"loop", "stacked", "ray"}
    assert "rfs" in repr(registry.methods)


@pytest.mark.parametrize("registry", sections_module.REGISTRIES, ids=lambda registry: registry.group)
def test_ours_are_what_others_must_be(registry):
    for name, thing in registry.ours.items():
        registry._examine(name, thing)


def test_a_view_of_ours_cannot_be_changed():
    with pytest.raises(TypeError):
        METHODS["mine"] = RFS


# How it is filled ----------------------------------------------------------------------------------


def test_a_decorator_and_add_make_a_name_known(tools):
    assert tools("saw")(Saw) is Saw
    assert tools.get("saw") is Saw
    assert tools.add("big hammer", Hammer(9)) == Hammer(9)
    assert tools.make("big hammer") == Hammer(9)
    assert tools.names() == ("hammer", "saw", "big hammer")


def test_without_a_name_the_things_own_is_taken(clean_methods):
    @clean_methods
    class Mine(Method):
        name = "mine"
        guarantee = Guarantee.EXACT

        def forget(self, desk, request, touched):
            """Nothing."""

    assert make_method("mine") is not None
    assert clean_methods()(Mine) is Mine
    with pytest.raises(ConfigError, match="has no name of its own"):
        clean_methods()(object())


@pytest.mark.parametrize("name", ["", " mine", "a:b", 3])
def test_a_name_is_a_plain_text(tools, name):
    with pytest.raises(ConfigError, match="is a text without ':'"):
        tools.add(name, Saw)


def test_a_name_of_ours_cannot_be_taken_over(tools):
    with pytest.raises(ConfigError, match=r"the tool 'hammer' is unknot's own"):
        tools("hammer")(Saw)


def test_a_name_belongs_to_one_but_the_same_thing_may_be_defined_anew(tools):
    tools.add("saw", Saw)
    with pytest.raises(ConfigError, match=r"there is a tool 'saw' already, '.*:Saw'"):
        tools.add("saw", Hammer)
    again = type("Saw", (Saw,), {"__module__": Saw.__module__, "__qualname__": Saw.__qualname__})
    tools.add("saw", again)  # as when a notebook's cell is run a second time
    assert tools.get("saw") is again


class NoUse:
    weight = 1.0


@dataclass
class Named:
    name: str = "x"
    weight: float = 1.0

    def use(self) -> str:
        return ""


def weightless():
    class Light:
        def use(self) -> str:
            return ""

    return Light()


def test_what_cannot_be_one_is_refused_in_words(tools):
    with pytest.raises(ConfigError, match=r"has no method 'use', which .*Tool asks for"):
        tools.add("no use", NoUse)
    with pytest.raises(ConfigError, match=r"has no method 'use'"):
        tools.add("no use", NoUse())
    with pytest.raises(ConfigError, match=r"has an option 'name', which means something else"):
        tools.add("named", Named)
    tools.add("light", weightless)  # a function may make anything: it is looked at when it has
    with pytest.raises(ConfigError, match=r"what it makes has no attribute 'weight'"):
        tools.make("light")


def forgets(self, desk, request, touched):
    """Nothing."""


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"guarantee": Guarantee.EXACT, "forget": forgets}, "has no name of its own"),
        ({"name": "x", "forget": forgets}, "does not say what it promises"),
        ({"name": "x", "guarantee": "exact", "forget": forgets}, "does not say what it promises"),
        ({"name": "x", "guarantee": Guarantee.EXACT}, "does not say how it forgets"),
    ],
)
def test_a_method_says_who_it_is_what_it_promises_and_how_it_forgets(clean_methods, members, said):
    with pytest.raises(ConfigError, match=said):
        clean_methods.add("x", type("X", (Method,), members))


@pytest.mark.parametrize(
    ("registry", "thing", "said"),
    [
        ("methods", FedAvg, r"is no unknot.federation.method.Method"),
        ("partitions", type("P", (unknot.data.Partition,), {"kind": "p"}), "does not say deal"),
        (
            "partitions",
            type("P", (unknot.data.Partition,), {"deal": lambda self, pool, key: None}),
            "does not say its kind",
        ),
        ("selectors", FedAvg, "has no method 'fresh'"),
        ("paces", FedAvg, "has no method 'vacancies'"),
        ("clocks", FedAvg, "has no method 'of'"),
        ("aggregators", RFS, "has no method '__call__'"),
        ("engines", FedAvg, "has no method 'examine'"),
        ("models", FedAvg, "is no torch.nn.modules.module.Module"),
        ("datasets", 3, "is no function that gives"),
    ],
)
def test_each_kind_refuses_what_is_of_another(registry, thing, said):
    with pytest.raises(ConfigError, match=said):
        getattr(unknot.registry, registry).add("x", thing)


# How it is found -----------------------------------------------------------------------------------


def test_an_unknown_name_has_its_nearest(tools):
    with pytest.raises(ConfigError, match=r"there is no tool 'hamer'\. Did you mean 'hammer'\?"):
        tools.get("hamer")
    with pytest.raises(ConfigError, match=r"shed\.tool = 'hamer': there is no such tool\. Did you mean"):
        tools.get("hamer", "shed.tool")
    with pytest.raises(ConfigError, match="must be a text, the name of a tool, not 3"):
        tools.get(3)


def test_a_path_is_imported(tools):
    assert tools.get(f"{__name__}:Saw") is Saw
    assert tools.make(f"{__name__}:Saw", {"teeth": 3}).teeth == 3


def test_a_function_is_not_called_where_a_class_is_to_be_named():
    for kind in ("methods", "optimizers", "schedules", "partitions", "paces", "selectors", "clocks"):
        with pytest.raises(ConfigError, match="is a function, and must be a class"):
            getattr(unknot.registry, kind).make("os:abort")


def breaks():
    raise KeyError("no such nail")


def test_a_maker_that_fails_is_named(tools):
    tools.add("broken", breaks)
    with pytest.raises(
        ConfigError, match=r"tool 'broken': making it failed: breaks\(\) gave KeyError: 'no such nail'"
    ):
        tools.make("broken")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_package.there:Thing", "no module no_such_package is installed"),
        ("unknot.nowhere:Thing", "no module unknot.nowhere is installed"),
        ("unknot.unlearn.rfs:RSF", r"rfs has no 'RSF'\. Did you mean 'RFS'"),
        ("unknot.unlearn.rfs:", "is written as 'package.module:Thing'"),
        ("a/b.py:Thing", "is written as 'package.module:Thing'"),
        ("unknot.federation:FedAvg", r"is no unknot\.federation\.method\.Method"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path, said):
    with pytest.raises(ConfigError, match=said):
        Experiment.of({"method": {"name": path}})


def run(folder: Path, code: str) -> str:
    """What a program prints, in an interpreter of its own that finds packages in this folder as well."""
    process = Started(program=textwrap.dedent(code), path=[str(folder)])
    said, wrong = process.communicate()
    assert process.returncode == 0, wrong
    return said


def install(folder: Path, package: str, entries: str, module: str = "") -> None:
    """A package as an installer leaves it: its module, and what its entry points are."""
    (folder / f"{package}.py").write_text(textwrap.dedent(module))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entries))


GOOD = """
    from unknot import Guarantee, Method

    class Mine(Method):
        name = "mine"
        guarantee = Guarantee.EXACT

        def forget(self, desk, request, touched):
            for lane in touched:
                desk.restart(lane)
"""
ASKED = """
    import json
    import unknot
    from unknot.experiments.catalogue import KINDS, things

    def said(do):
        try:
            return do().__name__
        except unknot.ConfigError as error:
            return str(error)

    methods = unknot.registry.methods
    made = unknot.Experiment.read(FILE)
    print(json.dumps({
        "names": [name for name in methods.names() if name not in methods.ours],
        "said": {
            name: said(lambda: methods.get(name)) for name in ("mine", "rfs", "broken", "odd", "both", "mien")
        },
        "errors": [one.error for one in things(KINDS["methods"]) if one.error],
        "beside": [type(made.method).__name__, made.name],
        "not there": said(lambda: unknot.Experiment.of({"method": {"name": "besides:Mine"}})),
    }))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What an interpreter of its own says of packages that are installed, and of a module beside a file."""
    packages, folder = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("folder")
    install(
        packages,
        "goodpack",
        "[unknot.methods]\nmine = goodpack:Mine\nrfs = goodpack:Mine\nboth = goodpack:Mine\n",
        GOOD,
    )
    install(packages, "badpack", "[unknot.methods]\nbroken = badpack:Mine\n", "raise OSError('no disk')")
    install(packages, "oddpack", "[unknot.methods]\nodd = oddpack:Odd\nboth = oddpack:Odd\n", "Odd = dict")
    install(packages, "endpack", "[unknot.methods]\nends = endpack:Mine\n", "raise SystemExit(3)")
    install(packages, "oddend", "[unknot.methods]\nskips = oddend:Mine\n", "raise BaseException")
    (folder / "besides_method.py").write_text(textwrap.dedent(GOOD))
    (folder / "file.toml").write_text('[method]\nname = "besides_method:Mine"\n')
    file = str(folder / "file.toml")
    return json.loads(run(packages, ASKED.replace("FILE", repr(file))))


def test_entry_points_are_found_and_what_is_wrong_with_them_is_said(told):
    """A good one, one that cannot be imported, one that is no method, a name of ours, a name of two."""
    assert sorted(told["names"]) == ["both", "broken", "ends", "mine", "odd", "skips"]
    said = told["said"]
    assert (said["mine"], said["rfs"]) == ("Mine", "RFS")
    assert said["broken"] == (
        "method 'broken': 'badpack:Mine' (package badpack) cannot be used: OSError: no disk"
    )
    assert "'oddpack:Odd' (package oddpack) cannot be used: method 'odd' (builtins:dict) is no" in said["odd"]
    assert said["both"] == (
        "method 'both': several packages have one of that name; write 'goodpack:Mine' (package goodpack) or "
        "'oddpack:Odd' (package oddpack)"
    )
    assert said["mien"].startswith("there is no method 'mien'. Did you mean 'mine'?")


def test_a_package_that_would_end_the_program_is_one_that_cannot_be_used(told):
    assert sorted(error for error in told["errors"] if "endpack" in error or "oddend" in error) == [
        "method 'ends': 'endpack:Mine' (package endpack) cannot be used: SystemExit: 3",
        "method 'skips': 'oddend:Mine' (package oddend) cannot be used: BaseException",
    ]


def test_packages_are_asked_only_for_what_is_not_ours(monkeypatch):
    import importlib.metadata

    def asked(**_):
        raise AssertionError("entry points were read")

    monkeypatch.setattr(importlib.metadata, "entry_points", asked)
    Experiment.of({"method": {"name": "mmt"}, "model": {"name": "lenet5"}, "select": {"name": "dqn"}})
    with pytest.raises(AssertionError, match="entry points were read"):
        methods.get("mine")


def test_a_module_beside_the_file_is_found(told):
    assert told["beside"] == ["Mine", "file"]
    assert told["not there"] == "method.name = 'besides:Mine': no module besides is installed"


def test_a_module_beside_the_file_that_another_hides_is_an_error(tmp_path):
    (tmp_path / "textwrap.py").write_text(textwrap.dedent(GOOD))
    file = tmp_path / "file.toml"
    file.write_text('[method]\nname = "textwrap:Mine"\n')
    with pytest.raises(ConfigError, match=r"but Python has imported the one in .*give yours another name"):
        Experiment.read(file)


def test_a_module_that_fails_says_how(tmp_path):
    (tmp_path / "needs_nothing_known.py").write_text("import no_such_thing_at_all")
    (tmp_path / "fails_when_read.py").write_text("1 / 0")
    file = tmp_path / "file.toml"
    file.write_text('[method]\nname = "needs_nothing_known:Mine"\n')
    with pytest.raises(ConfigError, match="needs no_such_thing_at_all, which is not installed"):
        Experiment.read(file)
    file.write_text('[method]\nname = "fails_when_read:Mine"\n')
    with pytest.raises(ConfigError, match="importing fails_when_read failed: ZeroDivisionError"):
        Experiment.read(file)
    (tmp_path / "ends_the_program.py").write_text("raise SystemExit(3)")
    file.write_text('[method]\nname = "ends_the_program:Mine"\n')
    with pytest.raises(ConfigError, match="importing ends_the_program failed: SystemExit: 3"):
        Experiment.read(file)
    file.write_text('[method]\nname = "not_there:Mine"\n')
    with pytest.raises(ConfigError, match=f"no module not_there is installed, nor in {tmp_path}"):
        Experiment.read(file)


# Options -------------------------------------------------------------------------------------------


def model(shape, classes, width: int = 3, *, depth: int = 1, **rest):
    return None


def test_options_are_fields_parameters_and_what_unknot_does_not_give_itself():
    assert {name: o.default for name, o in options_of(Hammer).items()} == {"size": 1, "weight": 2.0}
    assert options_of(Saw)["teeth"].default is REQUIRED
    assert options_of(Saw)["teeth"].hint is int
    assert list(options_of(model)) == ["depth"]
    assert list(options_of(model, given=2)) == ["width", "depth"]
    assert options_of(Hammer(3)) == {}
    assert options_of(dict.get) == {}


class OwnInit(Rapid):
    def __init__(self, speed: int = 2) -> None:
        super().__init__()


def test_a_class_with_an_init_of_its_own_has_its_parameters():
    assert list(options_of(OwnInit)) == ["speed"]


def test_what_is_no_option_is_said(tools):
    with pytest.raises(ConfigError, match=r"tool 'hammer' has no option 'sise'\. Did you mean 'size'"):
        tools.make("hammer", {"sise": 3})
    with pytest.raises(ConfigError, match=r"unknown key shed\.sise\. Did you mean 'size'"):
        tools.make("hammer", {"sise": 3}, "shed")
    with pytest.raises(ConfigError, match=r"shed\.size must be a whole number, not 'big'"):
        tools.make("hammer", {"size": "big"}, "shed")
    tools.add("saw", Saw)
    with pytest.raises(ConfigError, match=r"tool 'saw': the option 'teeth' is missing"):
        tools.make("saw")
    with pytest.raises(ConfigError, match=r"shed\.teeth is missing"):
        tools.make("saw", {}, "shed")
    with pytest.raises(ConfigError, match=r"shed\.teeth belongs to shed\.name = 'saw', but"):
        tools.make("hammer", {"teeth": 3}, "shed")
    tools.add("that hammer", Hammer(3))
    with pytest.raises(ConfigError, match=r"'that hammer' has no option 'size'\. It has no options"):
        tools.make("that hammer", {"size": 3})


@dataclass(frozen=True)
class Typed:
    mode: Literal["a", "b"] = "a"
    folder: Path = Path(".")
    share: float = 0.0
    count: int | None = None


def test_types_are_those_of_the_hints():
    made = filled(Typed, {"mode": "b", "folder": "x", "share": np.float32(0.5), "count": np.int64(3)}, "it")
    assert made == Typed("b", Path("x"), 0.5, 3)
    assert type(made.count) is int
    with pytest.raises(ConfigError, match=r"it\.mode = 'c' is not one that there is\. Known: a, b"):
        filled(Typed, {"mode": "c"}, "it")


@dataclass(frozen=True)
class Early:
    late: Late = None  # noqa: F821 - its class comes later


def test_a_type_that_was_not_there_yet_is_found_once_it_is(monkeypatch):
    assert options_of(Early)["late"].hint is Any
    monkeypatch.setitem(globals(), "Late", Typed)
    assert options_of(Early)["late"].hint is Typed


# Whose an option is --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    depth: int = 1
    weight: float = 5.0


@dataclass(frozen=True)
class Bench:
    """With a tool, its own weight, and settings of which two share a name with others."""

    tool: Tool = field(default_factory=lambda: Hammer(7, 3.0))
    weight: float = 0.0
    settings: Settings = field(default_factory=Settings)


def test_an_option_goes_to_all_that_have_it(tools):
    made = filled(Bench, {"weight": 9}, "bench")
    assert made == Bench(Hammer(7, 9.0), 9.0, Settings(1, 9.0))


def test_a_part_that_is_named_is_another_one(tools):
    tools.add("saw", Saw)
    made = filled(Bench, {"tool": "saw", "teeth": 4, "weight": 9}, "bench")
    assert (made.tool.teeth, made.tool.weight, made.weight) == (4, 9.0, 9.0)


def test_a_part_with_a_table_takes_its_options_from_there_alone(tools):
    made = filled(Bench, {"tool": {"weight": 4}, "weight": 9, "settings": {"depth": 2}}, "bench")
    assert made == Bench(Hammer(7, 4.0), 9.0, Settings(2, 5.0))
    made = filled(Bench, {"tool": {"name": "hammer", "size": 2}, "weight": 9}, "bench")
    assert made == Bench(Hammer(2, 2.0), 9.0, Settings(1, 9.0))
    with pytest.raises(ConfigError, match=r"unknown key bench\.tool\.wieght\. Did you mean 'weight'"):
        filled(Bench, {"tool": {"wieght": 4}}, "bench")
    with pytest.raises(ConfigError, match=r"bench\.tool = 'sow': there is no such tool"):
        filled(Bench, {"tool": "sow"}, "bench")
    with pytest.raises(ConfigError, match=r"bench\.size belongs into the table of bench\.tool"):
        filled(Bench, {"tool": {"name": "hammer"}, "size": 2}, "bench")


@dataclass(frozen=True)
class OwnRate(Method):
    """With a rate of its own beside its optimiser's."""

    lr: float = 1.0
    optimizer: unknot.core.training.Optimizer = field(default_factory=unknot.AdaHessian)
    retrain: Method | None = None

    name = "own-rate"
    guarantee = Guarantee.EXACT

    def forget(self, desk, request, touched):
        """Nothing."""


@pytest.fixture
def own_rate(clean_methods):
    return clean_methods.add("own-rate", OwnRate)


def made(**table):
    return Experiment.of({"method": {"name": "own-rate", **table}}).method


def test_a_methods_rate_and_its_optimisers_may_be_one_or_two(own_rate):
    assert made() == OwnRate()
    assert made(lr=0.1) == OwnRate(0.1, unknot.AdaHessian(0.1))
    assert made(lr=0.1, optimizer="adam") == OwnRate(0.1, unknot.Adam(0.1))
    assert made(lr=0.1, optimizer={"name": "adam", "lr": 0.2}) == OwnRate(0.1, unknot.Adam(0.2))
    assert made(lr=0.1, optimizer={"name": "adam"}) == OwnRate(0.1, unknot.Adam())
    assert made(lr=0.1, optimizer={"lr": 0.3}) == OwnRate(0.1, unknot.AdaHessian(0.3))


def test_a_method_within_a_method_has_only_its_own_table(own_rate):
    assert made(lr=0.1, retrain="own-rate").retrain == OwnRate()
    assert made(retrain={"name": "rapid", "lr": 0.2}).retrain == Rapid(unknot.AdaHessian(0.2))
    with pytest.raises(ConfigError, match=r"method\.retrain\.name is missing: which method is it"):
        made(retrain={"lr": 0.2})
    with pytest.raises(ConfigError, match=r"method\.retrain\.tree belongs to method\.retrain\.name = 'mmt'"):
        made(retrain={"name": "rfs", "tree": "huffman"})


def test_sub_tables_do_in_every_section():
    made = Experiment.of(
        {
            "data": {"partition": {"name": "iid", "clients": 4}},
            "train": {"optimizer": {"name": "adam", "lr": 0.1}, "epochs": 2},
            "federation": {
                "pace": {"name": "buffered", "per_round": 4, "minimum": 2},
                "aggregate": {"name": "fedbuff", "exponent": 1},
            },
            "clock": {"slowness": {"name": "pareto", "alpha": 2}, "latency": 1},
        }
    )
    assert made.data.partition == unknot.Iid(4)
    assert made.setup.recipe == unknot.Recipe(unknot.Adam(0.1), epochs=2)
    assert made.setup.pace == unknot.Buffered(4, 2)
    assert made.setup.aggregate == unknot.FedBuff(exponent=1.0)
    assert made.setup.clock == unknot.Clock(unknot.Pareto(2.0), latency=1.0)


def test_sub_tables_can_be_overridden_key_by_key():
    table = {"method": {"name": "rapid", "optimizer": {"name": "adam", "lr": 0.5}}}
    made = Experiment.of(table, ["method.optimizer.lr=0.25", "train.optimizer.lr=0.5"])
    assert made.method == Rapid(unknot.Adam(0.25))
    assert made.setup.recipe.optimizer == unknot.SGD(0.5)
    assert table["method"]["optimizer"]["lr"] == 0.5


def test_the_options_of_models_data_and_engines_are_read_with_the_file():
    for table, said in (
        ({"model": {"name": "mlp", "hiden": [3]}}, r"unknown key model\.hiden\. Did you mean 'hidden'"),
        ({"model": {"name": "gpt", "layers": "two"}}, r"model\.layers must be a whole number"),
        ({"data": {"normalise": "unit"}}, r"unknown key data\.normalise\. Did you mean 'normalize'"),
        ({"engine": {"name": "loop", "rows": 3}}, r"engine\.rows belongs to engine\.name = 'stacked'"),
        ({"engine": {"row": 3}}, r"unknown key engine\.row\. Did you mean 'rows'"),
        ({"engine": {"rows": "many"}}, r"engine\.rows must be a whole number"),
    ):
        with pytest.raises(ConfigError, match=said):
            Experiment.of(table)
    assert Experiment.of({"engine": {"rows": 3, "threads": 2}}).engine.options == {"rows": 3}


class Patient(LoopEngine):
    """An engine with an option of its own."""

    name = "patient"

    def __init__(
        self, model, *, device="cpu", dtype=torch.float32, threads=None, task=None, patience: int = 1
    ):
        super().__init__(model, device=device, dtype=dtype, threads=threads, task=task)
        self.patience = patience


class Deaf(LoopEngine):
    def __init__(self, model):
        super().__init__(model)


def test_an_engine_from_outside_has_options_too():
    table = {"name": f"{__name__}:Patient", "patience": 3, "threads": 1, "dtype": "float64"}
    fed = prepare(Experiment.of({"engine": table, "data": {"clients": 3}}))
    assert (fed.engine.patience, fed.engine.dtype, fed.engine.threads) == (3, torch.float64, 1)
    with pytest.raises(ConfigError, match=r"unknown key engine\.patienc\. Did you mean 'patience'"):
        Experiment.of({"engine": {"name": f"{__name__}:Patient", "patienc": 3}})
    with pytest.raises(ConfigError, match="does not take 'device': every engine takes"):
        Experiment.of({"engine": {"name": f"{__name__}:Deaf"}})


def focal(outputs, targets, *, gamma: float = 2.0):
    logs = outputs.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    return -((1 - logs.exp()) ** gamma) * logs


def test_a_loss_is_named_in_its_own_section():
    def loss(**table):
        return Experiment.of({"task": table}).setup.recipe.loss

    assert loss() is None
    assert loss(loss="huber", delta=2) == unknot.core.loss.Huber(2.0)
    assert loss(loss={"name": "cross-entropy", "smoothing": 0.1}).smoothing == 0.1
    assert loss(loss=f"{__name__}:focal").function is focal
    own = loss(loss=f"{__name__}:focal", gamma=1)
    assert (own.name, own.function.keywords) == ("focal", {"gamma": 1.0})
    assert loss(loss="torch.nn:HuberLoss", delta=0.5).function.delta == 0.5
    for table, said in (
        (
            {"loss": "cros-entropy"},
            r"task\.loss = 'cros-entropy': there is no such loss\. Did you mean 'cross",
        ),
        ({"smoothing": 0.1}, r"task\.smoothing belongs to loss = 'cross-entropy'.*, but loss is not given"),
        ({"loss": "huber", "smoothing": 0.1}, r"task\.smoothing belongs to loss = .*, but loss is 'huber'"),
        ({"loss": f"{__name__}:focal", "gama": 1}, r"unknown key task\.gama\. Did you mean 'gamma'"),
        ({"loss": f"{__name__}:REQUIRED"}, r"the name of a loss|cannot be called|is a name, a loss"),
    ):
        with pytest.raises(ConfigError, match=said):
            loss(**table)
    with pytest.raises(ConfigError, match=r"train\.loss: the loss stands in \[task\]"):
        Experiment.of({"train": {"loss": "huber"}})


@dataclass(frozen=True)
class Shed:
    tools: tuple[Tool, ...] = ()


def test_several_things_are_a_list_of_names_and_tables(tools):
    made = filled(Shed, {"tools": ["hammer", {"name": "hammer", "size": 3}, Hammer(5)]}, "shed")
    assert made.tools == (Hammer(), Hammer(3), Hammer(5))
    assert filled(Shed, {"tools": []}, "shed") == Shed()
    with pytest.raises(ConfigError, match=r"shed\.tools = 'hamer': there is no such tool"):
        filled(Shed, {"tools": ["hammer", "hamer"]}, "shed")


def test_metrics_are_names_and_tables():
    def metrics(*given):
        return [metric.name for metric in Experiment.of({"task": {"metrics": list(given)}}).setup.metrics]

    assert metrics("f1", {"name": "accuracy"}) == ["f1", "accuracy"]
    with pytest.raises(
        ConfigError, match=r"task\.metrics = 'acuracy'.*Did you mean 'accuracy'\? Known: accuracy, auc"
    ):
        metrics("f1", "acuracy")
    with pytest.raises(ConfigError, match=r"unknown key engine\.task"):
        Experiment.of({"engine": {"task": {}}})


def scaled(current, updates, version, ledger, *, factor: float = 1.0):
    return current


def test_where_functions_are_the_things_themselves_options_are_filled_in():
    registry = unknot.registry.aggregators
    assert registry.make(f"{__name__}:scaled") is scaled
    assert registry.make(f"{__name__}:scaled", {"factor": 2}).keywords == {"factor": 2.0}
    assert isinstance(scaled, Callable)
