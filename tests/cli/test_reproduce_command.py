"""What ``unknot reproduce`` refuses, and what it says of what it was asked for."""

import pytest
from typer.testing import CliRunner

from small_reproductions import GAMES, RUNS
from unknot.cli import app


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
    again = run("--set", "train.batch_size=7")
    assert remark in again.stdout
    assert "replace" not in again.stderr
    assert "replace" in run().stderr
    assert "file's configuration" not in page.read_text()
