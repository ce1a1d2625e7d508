"""``--out``: what ``unknot run`` and ``unknot demo`` leave in a folder."""

import json
import os

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.cli import run as running

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
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_a_run_is_left_and_can_be_run_again_to_the_bit(file, tmp_path):
    out = tmp_path / "left"
    shown = call("run", file, "--seed", "3", "--set", "train.lr=0.02", "--out", str(out)).output
    assert f"written: {out / 'report.html'}" in shown
    first = json.loads((out / "record.json").read_text())
    again = json.loads(call("run", str(out / "config.toml"), "--json").stdout)
    assert again["model"] == first["model"]
    assert (again["seed"], again["experiment"]) == (3, first["experiment"])


def test_json_stays_json_beside_it(file, tmp_path):
    record = json.loads(call("run", file, "--json", "--out", str(tmp_path / "left")).stdout)
    kept = json.loads((tmp_path / "left" / "record.json").read_text())
    record["seconds"] = kept["seconds"] = None
    assert kept == record


def test_a_folder_with_a_run_is_refused_before_training(file, tmp_path, monkeypatch):
    out = str(tmp_path / "left")
    call("run", file, "--out", out)
    before = os.stat(tmp_path / "left" / "record.json").st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr("unknot.experiments.kept.begin", lambda *_, **__: pytest.fail("it was trained"))
        refused = call("run", file, "--out", out, code=2)
        assert "name another folder, or write over it with --force" in " ".join(refused.output.split())
        assert "--force is for a folder" in call("run", file, "--force", code=2).output
    assert os.stat(tmp_path / "left" / "record.json").st_mtime_ns == before
    call("run", file, "--out", out, "--force")


def test_a_run_that_is_pending_is_left_as_well(file, tmp_path):
    call("run", file, "--set", "request=[{erase = 1, round = 9}]", "--out", str(tmp_path / "left"), code=3)
    assert "Still pending" in (tmp_path / "left" / "report.html").read_text()


def test_the_demo_is_left_too(tmp_path, monkeypatch):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "demo.toml").write_text(FILE)
    monkeypatch.setattr(running, "files", lambda _: tmp_path)
    call("demo", "--out", str(tmp_path / "left"))
    assert (tmp_path / "left" / "model.safetensors").exists()


@pytest.mark.parametrize("how", [[], ["--no-keep"]])
def test_a_picture_may_lie_in_the_folder_that_is_about_to_be_made(file, tmp_path, how):
    pytest.importorskip("matplotlib")
    pytest.importorskip("cryptography")
    out = tmp_path / "runs" / "new"
    call("run", file, "--out", str(out), "--plot", str(out / "picture.svg"), *how)
    assert (out / "picture.svg").read_text().rstrip().endswith("</svg>")
    assert (out / "record.json").exists()
