"""Who may import whom: the table in docs/architecture.md, held by reading the imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unknot

ROOT = Path(unknot.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"


def table() -> dict[str, set[str]]:
    """Which rooms each room may import, as the page has it."""
    lines = PAGE.read_text().split("## Rooms", 1)[1].split("\n## ", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    named = [re.findall(r"`(\w+)/`", row[0]) for row in rows]
    every = {room for rooms in named for room in rooms}
    found: dict[str, set[str]] = {}
    for rooms, row in zip(named, rows, strict=True):
        above = set(found)
        for room, said in zip(rooms, row[2].split("; ") if len(rooms) > 1 else row[2:], strict=True):
            found[room] = set()
            for clause in said.split("; "):
                words = set(re.findall(r"[a-z]+", clause))
                whole = above if "above" in words else every
                found[room] |= whole - words if "all" in words else words & every
    return found


MAY_IMPORT = table()
LIGHT = {"torch", "numpy", "msgspec", "unknot"}
HEAVY_ALLOWED = {
    "core": {"safetensors", "cryptography"},  # the latter for speed, and never needed
    "store": {"cryptography"},
    "engine": {"ray"},
    "text": {"transformers"},  # for tokenizers of other makes
    "models": {"safetensors", "transformers"},
    "incentive": {"scipy"},
    "experiments": {"pandas"},  # for who asks for a data frame
    "track": {"mlflow", "wandb"},
    "report": {"rich", "matplotlib", "PIL"},
    "cli": {"rich", "typer"},
}


def imports(room: str) -> dict[str, set[str]]:
    """Top-level packages, and rooms of our own, that a room's files import, with the file."""
    files = sorted((ROOT / room).rglob("*.py"))
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


def test_the_table_is_read_as_people_read_it():
    assert MAY_IMPORT["core"] == set()
    assert MAY_IMPORT["store"] == {"core", "federation"}
    assert MAY_IMPORT["unlearn"] == {"core", "federation", "topology"}
    assert MAY_IMPORT["incentive"] == {"core"}
    assert {"core", "unlearn", "experiments"} <= MAY_IMPORT["testing"]
    assert not MAY_IMPORT["testing"] & {"reproduce", "report", "cli"}
    assert MAY_IMPORT["report"] == {"core", "federation", "topology", "incentive"}
    assert MAY_IMPORT["cli"] == set(MAY_IMPORT)


def test_every_room_has_its_rule():
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert rooms == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may(room):
    for name, where in imports(room).items():
        top, _, rest = name.partition(".")
        if top != "unknot" or not rest:
            continue
        other = rest.split(".")[0]
        if other == "__version__":  # no room
            continue
        assert other == room or other in MAY_IMPORT[room], f"{room} imports {name} in {where}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_needs_nothing_but_torch_and_numpy(room):
    """And safetensors, where a model is saved or loaded."""
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
        "        heavy |= {'tensorboard', 'mlflow', 'wandb', 'safetensors', 'transformers', 'cryptography'}\n"
        "        if name.split('.')[0] in heavy:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import unknot\n"
        "from unknot import *\n"
        "unknot.simulate; unknot.track; Experiment.of({})\n"
        "import unknot.store\n"
        "import unknot.reproduce.__main__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
