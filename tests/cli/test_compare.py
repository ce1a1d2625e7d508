"""``unknot compare``: a table to decide by, rows for programs, and what it exits with."""

import json
import tomllib

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.experiments import Experiment, run
from unknot.experiments.contenders import USUAL

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[train]
batch_size = 10
[federation]
rounds = 4
[[request]]
erase = 1
round = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return str(path)


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, ["compare", *args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_json_is_a_list_of_runs_with_the_figures_of_unknot_run(file):
    rows = json.loads(call(file, "--method", "rfs", "--method", "sisa", "--seeds", "0-1", "--json").stdout)
    assert [(row["method"], row["seed"]) for row in rows] == [
        ("rfs", 0),
        ("rfs", 1),
        ("sisa", 0),
        ("sisa", 1),
    ]
    wanted = {"before", "after", "final", "regained_rounds", "guarantee", "model", "client_epochs"}
    assert all(wanted <= set(row) for row in rows)
    alone = run(Experiment.of(tomllib.loads(FILE), ["seed=1", "method={name='sisa'}"])).to_dict()
    assert rows[3]["model"] == alone["model"]
    assert rows[3]["final"] == alone["scores"]["validation"]["accuracy"]


def test_the_table_names_methods_figures_and_what_they_mean(file):
    text = call(file, "--method", "rfs", "--method", "knot, clusters=2", "--seeds", "0,1").stdout
    for word in ("knot, clusters=2", "right after", "client epochs", "exact*", "2 seeds", "stored"):
        assert word in text
    assert "what the clustering learned" in text


def test_quiet_says_nothing_but_what_is_wrong(file):
    assert call(file, "--method", "rfs", "--quiet").output == ""
    wild = call(file, "--method", "rfs", "--quiet", "--set", "train.lr=1e30", code=4)
    assert wild.stdout == ""
    assert "set aside" in wild.stderr


def test_a_method_that_cannot_run_is_named_and_has_a_status_of_its_own(file):
    text = " ".join(call(file, "--method", "rfs", "--method", "distillation", code=1).output.split())
    assert "distillation: could not run: distillation needs inputs" in text


def test_what_did_not_come_or_go_well_has_the_statuses_of_a_run(file):
    late = call(file, "--method", "rfs", "--set", "request=[{erase=1, time=1000.0}]", code=3)
    assert "still pending" in late.output
    wild = call(file, "--method", "rfs", "--set", "train.lr=1e30", code=4)
    assert "set aside" in wild.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--method", "mtm"), "Did you mean 'mmt'"),
        (("--method", "knot, clusters=x"), "double quotes"),
        (("--seeds", "0..4"), "0,1,2 or 0-4"),
        (("--plot", "picture.bmp"), "must end in"),
        (("--html", "page.txt"), "must end in .html"),
        (("--set", "request=[{erase=9, round=1}]", "--method", "rfs"), "cannot erase client 9"),
        (("--engine", "lopo", "--method", "rfs"), "Did you mean 'loop'"),
    ],
)
def test_a_mistake_is_a_message(file, args, message):
    result = call(file, *args, code=2)
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_picture_and_page_are_written(file, tmp_path):
    picture, page = tmp_path / "compared.svg", tmp_path / "compared.html"
    result = call(file, "--method", "rfs", "--plot", str(picture), "--html", str(page))
    written = result.output.replace("\n", "")
    assert all(f"written: {out}" in written for out in (picture, page))
    assert picture.read_text().startswith("<?xml")
    assert page.read_text().startswith("<!doctype html>")


def test_help_names_the_usual_methods():
    text = " ".join(call("--help").output.replace("│", " ").split())
    assert ", ".join(USUAL) in text
