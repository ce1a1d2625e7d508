"""Who may import whom: the table in docs/architecture.md, held by reading the imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import unknot

ROOT = Path(unknot.__file__).parent
EVERYTHING = {
    "core",
    "data",
    "models",
    "engine",
    "federation",
    "topology",
    "incentive",
    "select",
    "unlearn",
    "audit",
    "experiments",
    "reproduce",
    "testing",
    "report",
}
MAY_IMPORT = {
    "core": set(),
    "data": {"core"},
    "models": {"core"},
    "engine": {"core"},
    "federation": {"core"},
    "topology": {"core"},
    "incentive": {"core"},
    "select": {"core"},
    "unlearn": {"core", "federation", "topology"},
    "audit": {"core"},
    "experiments": EVERYTHING - {"experiments", "reproduce", "testing", "report"},
    "reproduce": EVERYTHING - {"testing", "report"},
    "testing": EVERYTHING - {"reproduce", "report"},
    "report": {"core", "federation", "topology", "incentive"},
    "cli": EVERYTHING,
}
LIGHT = {"torch", "numpy", "unknot"}
HEAVY_ALLOWED = {"incentive": {"scipy"}, "report": {"rich", "matplotlib"}, "cli": {"rich", "typer"}}


def imports(room: str) -> dict[str, set[str]]:
    """Top-level packages, and rooms of our own, that a room's files import, with the file."""
    files = [ROOT / "cli.py"] if room == "cli" else sorted((ROOT / room).rglob("*.py"))
    assert files, f"no room {room}"
    found: dict[str, set[str]] = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: imports are written in full"
                names = [node.module or ""]
                if node.module == "unknot":
                    names = [f"unknot.{alias.name}" for alias in node.names]
            for name in names:
                found.setdefault(name, set()).add(file.name)
    return found


def test_every_room_has_its_rule():
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert rooms | {"cli"} == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may(room):
    for name, where in imports(room).items():
        top, _, rest = name.partition(".")
        if top != "unknot" or not rest:
            continue
        other = rest.split(".")[0]
        assert other == room or other in MAY_IMPORT[room], f"{room} imports {name} in {where}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_needs_nothing_but_torch_and_numpy(room):
    for name, where in imports(room).items():
        top = name.split(".")[0]
        allowed = LIGHT | HEAVY_ALLOWED.get(room, set())
        assert top in allowed or top in sys.stdlib_module_names, f"{room} imports {name} in {where}"


def test_no_method_imports_another():
    for file in (ROOT / "unlearn").glob("*.py"):
        if file.name != "__init__.py":
            assert "unknot.unlearn" not in file.read_text(), file.name


def test_unknot_imports_without_the_command_line():
    """As on a machine that has torch and numpy alone."""
    code = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        heavy = {'rich', 'typer', 'matplotlib', 'scipy', 'sklearn', 'pydantic', 'flwr', 'ray'}\n"
        "        if name.split('.')[0] in heavy:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import unknot\n"
        "unknot.simulate; unknot.Experiment.of({})\n"
        "import unknot.reproduce.__main__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
