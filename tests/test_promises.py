"""Every promise in PROMISES.md names a test, and every test that it names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROMISES = [
    line for line in (ROOT / "tests" / "PROMISES.md").read_text().splitlines() if line.startswith("- ")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_promise_names_tests_that_are_there():
    kept = [line for line in PROMISES if not line.startswith("- ~~")]
    assert [line for line in kept if not NAMED.search(line)] == []
    named = {found for line in kept for found in NAMED.findall(line)}
    there = {
        (file, node.name)
        for file in {file for file, _ in named}
        if (ROOT / file).exists()
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert sorted(named - there) == []
