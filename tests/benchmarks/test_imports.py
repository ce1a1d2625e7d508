"""What the benchmarks, scripts and examples take from the package is there: nothing else runs them all."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("benchmarks", "scripts", "examples") for path in (ROOT / folder).rglob("*.py")
)


def taken(tree):
    """The names that a file imports from the package, wherever in it, with the modules that they are of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_name_that_is_imported_from_the_package_is_there(path):
    for module, name in taken(ast.parse(path.read_text())):
        if module.partition(".")[0] == "unknot":
            there = name is None or hasattr(import_module(module), name) or find_spec(f"{module}.{name}")
            assert there, f"{module} has no {name}"
