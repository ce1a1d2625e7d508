"""What is imported when: names when they are used, rooms when a registry is asked, and torch not before."""

import ast
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import unknot
import unknot.unlearn
from unknot.core.lazy import names
from unknot.core.registry.sections import REGISTRIES


def run(program):
    """Run a program in a Python that has imported nothing."""
    path = os.pathsep.join([str(Path(unknot.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_unknot_imports_next_to_nothing():
    program = "import sys, unknot; print(*(name for name in sys.modules))"
    loaded = run(program).split()
    assert {name for name in loaded if name.startswith("unknot")} == {
        "unknot",
        "unknot.core",
        "unknot.core.lazy",
    }
    assert not {"torch", "numpy", "rich", "typer"} & set(loaded)


def test_an_optimiser_is_made_and_steps_without_pytorchs_compiler():
    run(
        "import sys, torch\n"
        "from unknot.core.training import Adam, Recipe, StepRule\n"
        "StepRule(Recipe(Adam()), 0, [torch.ones(2, 3)], [None]).take(0, [torch.ones(2, 3)])\n"
        "assert 'torch._dynamo' not in sys.modules"
    )


@pytest.mark.parametrize("command", ["", "run"])
def test_help_comes_without_torch(command):
    run(
        "import sys\n"
        "from unknot.cli import app\n"
        f"sys.argv = ['unknot', *{command.split()}, '--help']\n"
        "try:\n"
        "    app()\n"
        "except SystemExit as done:\n"
        "    assert not done.code and 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )


@pytest.mark.parametrize("command", ["show", "watch", "forget --client 1", "pause", "stop", "resume"])
def test_a_folder_that_is_not_there_is_refused_without_torch(command, tmp_path):
    name, *more = command.split()
    told = run(
        "import sys\n"
        "from unknot.cli import app\n"
        f"sys.argv = ['unknot', {name!r}, {str(tmp_path / 'no')!r}, *{more}]\n"
        "sys.stderr = sys.stdout\n"
        "try:\n"
        "    app()\n"
        "except SystemExit as done:\n"
        "    assert done.code == 2 and 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    assert "holds no run: name the folder of one" in told


ASKED = {
    "methods": "assert 'rfs' in known.names()",
    "models": "assert known.get('mlp')",
    "datasets": "assert 'digits' in repr(known)",
    "partitions": "assert 'iid' in known.ours",
    "optimizers": "assert known.make('sgd', {'lr': 1}) == unknot.SGD(1.0)",
    "losses": "assert 'weights' in known.options('cross-entropy')",
    "metrics": "assert known.base is not None",
    "schedules": "assert known.owners('length')",
    "selectors": "assert known.given('k-center', 'select')",
    "aggregators": "assert known.name_of(unknot.FedAvg) == 'fedavg'",
    "paces": "assert known.make('buffered', {'per_round': 4, 'minimum': 2})",
    "clocks": "assert known.make('uniform')",
    "engines": "assert known.options_of(known.get('loop'))",
}
KEPT = pickle.dumps(unknot.Recipe(unknot.Adam(0.1), epochs=3))
COLD = {
    **{
        f"{kind} are there when first asked for": f"import unknot; known = unknot.registry.{kind}; {ask}"
        for kind, ask in ASKED.items()
    },
    **{
        f"{names} are found first of all": f"import unknot; [getattr(unknot, one) for one in {names.split()}]"
        for home, names in unknot._HOMES.items()
        if home not in {registry.home for registry in REGISTRIES}
    },
    "what a program adds first of all is examined as ever": """
        import unknot
        @unknot.registry.methods("mine")
        class Mine(unknot.RFS):
            name = "mine"
        assert unknot.registry.methods.get("mine") is Mine
        for registry, name, said in (("methods", "rfs", "unknot's own"), ("engines", "x", "has no method")):
            try:
                getattr(unknot.registry, registry).add(name, int)
            except unknot.ConfigError as error:
                assert said in str(error)
            else:
                raise AssertionError(name)
    """,
    "an option is made by name though its room is not there yet": """
        import sys
        from dataclasses import make_dataclass
        from unknot.core.registry import filled
        from unknot.core.selection import Selector
        assert "unknot.select" not in sys.modules
        made = filled(make_dataclass("Plan", [("select", Selector)]), {"select": "balanced"}, "plan")
        assert type(made.select).__name__ == "Balanced"
    """,
    "a method is imported when it is used, and so are engines, data sets and comparisons": """
        import sys, unknot
        assert "knot" in unknot.unlearn.METHODS and len(unknot.unlearn.METHODS) > 10
        unknot.simulate, unknot.registry.methods.make("rfs")
        late = ["unlearn.knot", "topology", "select", "engine", "data.own", "data.sources"]
        late = {f"unknot.{name}" for name in [*late, "experiments.comparison"]}
        assert not late & set(sys.modules)
        assert unknot.registry.methods.get("knot") is unknot.KNOT is unknot.unlearn.METHODS["knot"]
    """,
    "threads may ask first at once": """
        import threading, unknot
        names = ["simulate", "KNOT", "DQN", "clients", "Huber", "SGD", "FedAvg", "BMT"]
        kinds = ["methods", "engines", "selectors", "models", "partitions", "losses", "paces", "clocks"]
        start, found = threading.Barrier(len(names)), []
        def ask(name, kind):
            start.wait()
            registry = getattr(unknot.registry, kind)
            found.append((getattr(unknot, name), [registry.get(one) for one in registry.ours]))
        threads = [threading.Thread(target=ask, args=pair, daemon=True) for pair in zip(names, kinds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == len(names)
    """,
    "no module asks for names while it is imported: it would hold its own lock and wait for that one": """
        import importlib, pkgutil, unknot
        from unknot.core import lazy
        def refuse(path):
            raise RuntimeError(f"{path} is asked for at import")
        lazy.imported = refuse
        for module in pkgutil.walk_packages(unknot.__path__, "unknot."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    """,
    "a pickle is read": f"""
        import pickle
        made = pickle.loads({KEPT!r})
        import unknot
        assert made.optimizer == unknot.Adam(0.1)
    """,
}
FORKS = """
import gc, os, sys, traceback
import numpy, torch

failed = []
gc.freeze()
sys.dont_write_bytecode, sys.pycache_prefix = False, CACHE  # unknot is compiled once for all
for said, program in COLD.items():
    assert not any(name.startswith("unknot") for name in sys.modules)
    if not (child := os.fork()):
        try:
            exec(program, {})
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(said)
assert not failed, failed
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="torch would have to be imported for each")
def test_whatever_is_asked_for_first_is_found(tmp_path):
    """Each of `COLD` in a process of its own, in which torch is imported and nothing of unknot."""
    programs = {said: textwrap.dedent(program) for said, program in COLD.items()}
    run(f"COLD, CACHE = {programs!r}, {str(tmp_path)!r}\n{FORKS}")


def late(package):
    """What a package imports late, by module."""
    if package is unknot:
        return {(home, name) for home, names in unknot._HOMES.items() for name in names.split()}
    paths = unknot.unlearn._PATHS.values() if package is unknot.unlearn else package._LATE
    return {tuple(path.split(":")) for path in paths}


LAZY = (unknot, unknot.data, unknot.experiments, unknot.unlearn)


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_what_is_exported_is_what_types_are_known_of(package):
    """The table, ``__all__`` and what type checkers see are one list."""
    tree = ast.parse(Path(package.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {(found.module, name.name) for found in block.body for name in found.names}
    assert typed == late(package)
    names = {name for _, name in typed}
    assert names <= set(package.__all__) <= set(dir(package))
    assert names == set(package.__all__) or package is not unknot


def test_every_name_is_itself_after_a_star():
    space: dict[str, object] = {}
    exec("from unknot import *", space)
    assert set(unknot.__all__) <= set(space)
    assert space["KNOT"] is unknot.unlearn.KNOT is unknot.registry.methods.get("knot")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'unknot' has no attribute 'simulat'"):
        unknot.simulat  # noqa: B018
    assert not hasattr(unknot.unlearn, "__wrapped__")
    assert not hasattr(unknot.core, "no_such_module")


def test_a_name_may_be_a_module_of_the_package_itself():
    find, listed = names("unknot", ["unknot:audit"])
    assert find("audit") is sys.modules["unknot.audit"]
    assert "audit" in listed()


def test_rooms_are_there_without_being_imported():
    assert unknot.audit.LiRA.__module__ == "unknot.audit.lira"
    assert unknot.core.loss.Huber is unknot.Huber


def test_where_a_base_lies_is_where_it_is():
    for registry in REGISTRIES:
        base = registry.base
        if registry._of:
            assert registry._of == f"{base.__module__}:{base.__qualname__}"
        elif base is not None and registry.group.startswith("unknot."):
            assert f"{base.__module__}.".startswith(f"{registry.home}."), registry.group


def test_ours_lie_under_the_names_that_they_have():
    for name, method in unknot.unlearn.METHODS.items():
        assert method.name == name
