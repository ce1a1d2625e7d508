"""Commands on runs that are kept, as tests give them."""

import json

from typer.testing import CliRunner

from unknot.cli import app
from unknot.engine.stacked import StackedEngine

FILE = """
[data]
partition = "iid"
clients = 4
samples = 12
validation = 20
test_samples = 20
[train]
batch_size = 10
[federation]
rounds = 3
"""
NAMES = ("Graz-on-Mur", "Linz-on-Danube", "Wels-on-Traun", "Wien-on-Danube")
"""In the order of their numbers."""


def call(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def shown(folder, *more):
    return json.loads(call("show", folder, "--json", *more).stdout)


def break_off(monkeypatch, at):
    """As if the process were interrupted in the middle of this training."""
    train, calls = StackedEngine.train, []

    def stopped(self, *args, **options):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return train(self, *args, **options)

    monkeypatch.setattr(StackedEngine, "train", stopped)


def write_towns(place, names, rounds, more=""):
    """A run's file whose clients have names, and the folder that it reads."""
    towns = place / "towns"
    towns.mkdir()
    for i, name in enumerate((*names, "test", "validation")):
        rows = "".join(f"0.{i}{j},{j % 2}\n" for j in range(6))
        (towns / f"{name}.csv").write_text("age,ill\n" + rows)
    path = place / "towns.toml"
    path.write_text(
        f"[data]\nname = 'folder'\npath = '{towns}'\ntarget = 'ill'\n[federation]\nrounds = {rounds}\n{more}"
    )
    return path
