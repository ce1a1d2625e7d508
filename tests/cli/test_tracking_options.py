import csv
import json
import sys

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.track import CSV

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[train]
batch_size = 10
[federation]
rounds = 3
[[request]]
erase = 1
round = 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return str(path)


def call(*args, code=0):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_a_table_of_the_run_is_written_and_the_model_is_the_same(file, tmp_path):
    out = tmp_path / "run.csv"
    record = json.loads(call("run", file, "--json", "--csv", str(out)).stdout)
    with out.open(encoding="utf-8", newline="") as lines:
        events = [line["event"] for line in csv.DictReader(lines)]
    assert events == ["round", "erase", "round", "round", "end"]
    assert record["model"] == json.loads(call("run", file, "--json").stdout)["model"]
    assert f"written: {out}" in call("run", file, "--csv", str(out)).output


@pytest.mark.parametrize(
    ("option", "package"),
    [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")],
)
def test_a_missing_package_is_one_line_before_the_run(file, tmp_path, monkeypatch, option, package):
    monkeypatch.setitem(sys.modules, package, None)
    result = call("run", file, f"--{option}", str(tmp_path / "a"), code=2)
    assert f"pip install -e '.[{option}]'" in result.stderr
    assert result.stdout == ""


def test_what_could_not_be_written_to_the_end_is_named_and_has_a_status_of_its_own(
    file, tmp_path, monkeypatch
):
    def full(self, served):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CSV, "served", full)
    out = tmp_path / "run.csv"
    text = call("run", file, "--csv", str(out), code=5).output
    assert "the observer CSV was set aside at 'erase client 1': OSError: [Errno 28] No space left" in text
    assert f"incomplete: {out}" in text
    for silent in ("--quiet", "--json"):
        told = call("run", file, silent, "--csv", str(out), code=5).stderr
        assert told.startswith("warning: the observer CSV was set aside")
        assert told.count("\n") == 1
    record = json.loads(call("run", file, "--json", "--csv", str(out), code=5).stdout)
    assert record["warnings"] == []
    assert record["set_aside_observers"][0]["observer"] == "CSV"
    assert record["model"] == json.loads(call("run", file, "--json").stdout)["model"]
