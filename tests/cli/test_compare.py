"""``unknot compare``: a table to decide by, rows for programs, and what it exits with."""

import json
import shlex
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.experiments import Experiment, comparison, run
from unknot.experiments.contenders import USUAL
from unknot.federation.cohort import run_alone

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
    assert rows[3]["final"] == alone["scores"]["validation"]["metrics"]["accuracy"]


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


def test_a_comparison_leaves_settings_figures_page_and_picture(file, tmp_path):
    out = tmp_path / "left"
    result = call(file, "--method", "rfs", "--method", "knot, clusters=2", "--out", str(out))
    names = ["comparison.html", "comparison.json", "comparison.png", "config.toml"]
    assert sorted(path.name for path in out.iterdir()) == names
    written = result.output.replace("\n", "")
    assert all(f"written: {out / name}" in written for name in names)
    figures = json.loads((out / "comparison.json").read_text())
    assert [one["method"] for one in figures["methods"]] == ["rfs", "knot, clusters=2"]
    again = (out / "config.toml").read_text()
    assert "Again: unknot compare config.toml --method rfs --method 'knot, clusters=2'\n" in again
    assert Experiment.of(tomllib.loads(again)).requests == Experiment.of(tomllib.loads(FILE)).requests


OWN = """
from dataclasses import dataclass
from pathlib import Path
from unknot import RFS

@dataclass(frozen=True)
class Mine(RFS):
    name = "mine"
    notes: Path | None = None
"""


def test_a_method_beside_the_file_is_found_and_the_settings_that_are_left_find_it_too(
    file, tmp_path, monkeypatch
):
    (tmp_path / "compared_beside.py").write_text(OWN)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    call(file, "--method", 'compared_beside:Mine, notes="a b.txt"', "--out", "left", "--quiet")
    head, *_ = (tmp_path / "work" / "left" / "config.toml").read_text().splitlines()
    words = shlex.split(head.partition("Again: ")[2])
    assert words[4] == f'compared_beside:Mine, notes="{tmp_path / "work" / "a b.txt"}"'
    monkeypatch.chdir(tmp_path / "work" / "left")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(tmp_path)])
    monkeypatch.delitem(sys.modules, "compared_beside")
    rows = json.loads(call(*words[2:], "--json").stdout)
    assert [row["method"] for row in rows] == [words[4].replace('"', "")]


def test_the_files_own_method_from_beside_it_is_among_the_usual_ones(file, tmp_path, monkeypatch):
    (tmp_path / "own_beside.py").write_text(OWN)
    monkeypatch.setattr("unknot.experiments.contenders.USUAL", ("rfs",))
    rows = json.loads(call(file, "--set", "method.name=own_beside:Mine", "--json").stdout)
    assert [row["method"] for row in rows] == ["rfs", "own_beside:Mine"]


@pytest.mark.parametrize(
    ("args", "again"),
    [
        (("--method", "knot\n, clusters=2"), "--method 'knot, clusters=2'"),
        (("--method", 'name="rfs"'), "--method rfs"),
        (("--method", "rfs", "--seeds", "0\n"), "--method rfs --seeds 0"),
        (("--method", "rfs", "--seeds", "0,\n1"), "--method rfs --seeds 0,1"),
    ],
)
def test_the_settings_that_are_left_are_toml_whatever_was_typed(file, tmp_path, args, again):
    call(file, *args, "--out", str(tmp_path / "left"), "--quiet")
    text = (tmp_path / "left" / "config.toml").read_text()
    assert text.splitlines()[0].endswith(f"Again: unknot compare config.toml {again}")
    assert Experiment.of(tomllib.loads(text)).length.rounds == 4


def test_a_folder_with_a_comparison_is_written_over_only_by_force(file, tmp_path):
    out = tmp_path / "left"
    call(file, "--method", "rfs", "--out", str(out), "--quiet")
    refused = " ".join(call(file, "--method", "rfs", "--out", str(out), code=2).output.split())
    assert "--force" in refused
    call(file, "--method", "sisa", "--out", str(out), "--force", "--quiet")
    assert json.loads((out / "comparison.json").read_text())["methods"][0]["method"] == "sisa"
    assert "--out" in call(file, "--force", code=2).output


def test_a_stopped_comparison_says_what_was_kept(file, tmp_path, monkeypatch):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("unknot.experiments.compare", stopped)
    result = call(file, "--method", "rfs", "--out", str(tmp_path / "left"), code=130)
    assert "stopped: no run had ended, and a comparison keeps nothing" in " ".join(result.stderr.split())
    assert not (tmp_path / "left").exists()


def test_a_stopped_comparison_says_how_many_runs_had_ended(file, monkeypatch):
    whole = comparison.going

    def stopped(fed, experiment):
        if experiment.method.name == "sisa":
            raise KeyboardInterrupt
        return whole(fed, experiment)

    def in_turn(runs, once):
        return list(map(run_alone, runs))

    monkeypatch.setattr(comparison, "going", stopped)
    monkeypatch.setattr(comparison, "run_together", in_turn)
    result = call(file, "--method", "rfs", "--method", "sisa", "--seeds", "0", code=130)
    told = "stopped: 1 of 2 runs had ended, and a comparison keeps nothing before all have."
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("knot, clusters=0", "clusters must be at least 1, not 0"),
        ("rapid, lr=-1", "lr must be positive, not -1.0"),
        ('knot, clusters="a"', "clusters must be a whole number, not 'a'"),
    ],
)
def test_what_is_wrong_with_a_method_is_told_of_what_was_written(file, written, wrong):
    said = " ".join(call(file, "--method", written, code=2).stderr.split())
    assert said == f"error: the method {written!r}: {wrong}"
