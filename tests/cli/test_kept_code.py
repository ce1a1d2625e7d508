"""Kept runs that name code and files: their own are left as others are, a folder's are shown or asked for."""

import sys

import pytest
from typer.testing import CliRunner

from unknot.cli import app

pytest.importorskip("cryptography")

FILE = """
[data]
name = "folder"
path = "{place}"
target = "ill"
[method]
name = "kept_code_of_ours:Mine"
[federation]
rounds = 1
"""


def call(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "300"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A run's file that names code beside it, which no other test has imported."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "kept_code_of_ours", raising=False)
    place = tmp_path / "towns"
    place.mkdir()
    for name in ("Graz", "Linz", "validation", "test"):
        (place / f"{name}.csv").write_text("age,ill\n0.1,0\n0.2,1\n")
    (tmp_path / "kept_code_of_ours.py").write_text(
        "from unknot.unlearn import RFS\n\n\nclass Mine(RFS):\n    name = 'mine'\n"
    )
    path = tmp_path / "own.toml"
    path.write_text(FILE.format(place=place))
    return path


def test_own_code_runs_to_its_end_and_is_asked_for_at_resume(file, tmp_path):
    place, out = tmp_path / "towns", tmp_path / "run"
    call("run", file, "--out", out)
    assert (out / "config.toml").exists()
    assert "names code, 'kept_code_of_ours:Mine'" in call("resume", out, "--rounds", 1, code=2).output
    told = call("resume", out, "--rounds", 1, "--own-code")
    assert f"reads {place}\n" in told.stderr
    for silent in ("--quiet", "--json"):
        told = call("resume", out, "--rounds", 1, "--own-code", silent)
        assert "reads " not in told.stderr + told.stdout


def test_how_a_run_that_names_code_is_gone_on_with_says_what_it_takes(file, tmp_path):
    out = tmp_path / "run"
    call("run", file, "--out", out, "--quiet")
    again = f"unknot resume {out} --own-code (if 'kept_code_of_ours:Mine', which it names, is yours)"
    assert f"to go on with it: {again}" in call("run", file, "--out", out, code=2).stderr
    assert f"To have it served: {again}" in call("forget", out, "--client", "Graz").stdout
    assert f"to go on: {again}" in " ".join(call("show", out).stdout.split())
    call("resume", out, "--own-code", "--quiet")
    told = call("resume", out, "--own-code").stderr
    assert f"More of it: {again.replace('--own-code', '--rounds N --own-code')}" in told
