"""What ``unknot reproduce`` refuses, and what it says of what it was asked for."""

import pytest
from typer.testing import CliRunner

from small_reproductions import GAMES, RUNS
from unknot.cli import app
from unknot.core.errors import ConfigError
from unknot.experiments import results
from unknot.reproduce import load, reproduce
from unknot.reproduce.__main__ import main
from unknot.reproduce.record_file import keep, kept


def call(*args, code=0, env=None):
    result = CliRunner().invoke(app, list(map(str, args)), env={"COLUMNS": "400", **(env or {})})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(RUNS)
    (tmp_path / "game.toml").write_text(GAMES)
    return tmp_path


def run(*args, name="tiny.toml", **options):
    return call("reproduce", name, "--seeds", 0, "--only", "p", *args, **options)


def test_a_page_of_other_settings_says_so_below_its_title_and_the_terminal_too(folder):
    run()
    page = folder / "runs" / "tiny-small.md"
    assert "file's configuration" not in page.read_text()
    found = run("--set", "train.batch_size=7", "--quiet")
    assert found.stderr.startswith(
        "warning: 2 runs replace records of other settings in runs/tiny-small.json.gz"
    )
    remark = "With `train.batch_size=7`, which is not the file's configuration."
    assert page.read_text().splitlines()[:5] == [
        "# Tiny",
        "",
        "Figure 0, at small scale. It is tiny.",
        "",
        remark,
    ]
    assert "as configured" in call("reproduce", "tiny.toml", "--check", "runs").stdout
    again = run("--set", "train.batch_size=7")
    assert remark in again.stdout
    assert "replace" not in again.stderr
    assert "replace" in run().stderr
    assert "file's configuration" not in page.read_text()


@pytest.mark.parametrize("name", ["tiny.toml", "game.toml"])
def test_a_folder_that_cannot_be_written_is_found_before_anything_is_run(folder, name, monkeypatch):
    def refused(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(results.tempfile, "TemporaryFile", refused)
    found = call("reproduce", name, "--out", folder / "closed", code=2)
    assert f"error: cannot write into {folder / 'closed'}: you may not write into {folder}" in found.stderr
    assert "1 of" not in found.stderr
    assert not (folder / "closed").exists()
    with pytest.raises(ConfigError, match="you may not write into"):
        reproduce(load(name), out=folder / "closed", seeds=[0])


def test_what_cannot_be_run_at_all_is_an_error_and_leaves_no_page(folder):
    def error(*args, env):
        found = call("reproduce", *args, code=2, env=env)
        assert not found.stdout
        assert not list(folder.glob("*/*"))
        return found.stderr

    paper = ("exact-fig1", "--scale", "paper", "--only", "rfs", "--only")
    told = error(*paper, "mnist", env={"UNKNOT_DATA": "/nope"})
    assert "error: nothing that was asked for can be run: mnist is not here; `unknot data` says how" in told
    assert "$UNKNOT_DATA names /nope, which is no folder" in told
    told = error(*paper, "mnist", "--only", "fashion-mnist", env={"UNKNOT_DATA": ""})
    assert "mnist is not here" in told
    assert "fashion-mnist is not here" in told
    assert "$UNKNOT_DATA is not set" in told
    (folder / "data").mkdir()
    told = error(*paper, "mnist", env={"UNKNOT_DATA": str(folder / "data")})
    assert "$UNKNOT_DATA" not in told
    told = error("tiny.toml", "--only", "letters", env={"UNKNOT_DATA": "/nope"})
    assert "femnist is not here" in told
    assert "$UNKNOT_DATA" not in told, "the panel has a folder of its own"
    (folder / "never.toml").write_text(
        RUNS.replace('title = "letters",', 'title = "letters", not_run = "Not to be had.",')
    )
    told = error("never.toml", "--only", "letters", env={})
    assert "nothing that was asked for can be run: letters: Not to be had." in told


def test_where_some_panels_are_left_out_the_others_are_shown(folder):
    found = call("reproduce", "tiny.toml", "--seeds", 0, env={"UNKNOT_DATA": "/nope"})
    assert "left out letters: femnist is not here" in found.stderr
    assert (folder / "runs" / "tiny-small.md").exists()


def test_what_is_recorded_is_shown_where_its_data_is_not(folder):
    run()
    page = folder / "runs" / "tiny-small.md"
    page.unlink()
    (folder / "tiny.toml").write_text(RUNS.replace('iid"', 'iid", name = "mnist", root = "/nowhere"'))
    file = folder / "runs" / "tiny-small.json.gz"
    for item in kept(file).values():
        item["config"]["data"] |= {"name": "mnist", "root": "/nowhere"}
        keep(file, item)
    assert "left out" in run().stderr
    assert page.exists()


@pytest.mark.parametrize("name", ["tiny.toml", "game.toml"])
@pytest.mark.parametrize("option", ["--threads", "--together"])
@pytest.mark.parametrize("number", [0, -2])
def test_so_many_threads_or_runs_side_by_side_there_are_not(folder, name, option, number):
    found = call("reproduce", name, option, number, code=2)
    assert f"error: Invalid value for '{option}'" in found.stderr
    with pytest.raises(ConfigError, match=f"{option[2:]} must be at least 1, not {number}"):
        reproduce(load(name), out=folder, **{option[2:]: number})
    assert main([name, "--out", "runs", option, str(number)]) == 2
    assert not (folder / "runs").exists()
