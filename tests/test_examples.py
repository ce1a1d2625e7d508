"""The examples run, and show what they are there to show."""

import runpy
from pathlib import Path

import pytest

from unknot import registry

EXAMPLES = Path(__file__).parent.parent / "examples"
TELLING = {
    "own_data": ["erase Graz: exact", "shaped by Linz, Wien"],
    "compare_methods": ["rfs", "federaser", "sisa", "mmt", "approximate"],
    "own_method": ["checks held", "idle: ", "begun again: half 1; exact"],
    "into_pytorch": ["in plain PyTorch", "by number: [0, 1, 2, 4]"],
}


@pytest.mark.parametrize("name", TELLING)
def test_an_example_runs(name, capsys, monkeypatch):
    monkeypatch.setattr(registry.methods, "_added", {})
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert all(text in said for text in TELLING[name]), said


def test_every_example_is_run():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(TELLING)


def test_a_model_says_in_plain_pytorch_what_it_says_here(capsys):
    runpy.run_path(str(EXAMPLES / "into_pytorch.py"), run_name="__main__")
    here, plain = (word for word in capsys.readouterr().out.split() if "%" in word)
    assert here.rstrip(",") == plain
