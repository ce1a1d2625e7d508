"""Kept runs that name code and files: their own are left as others are, a folder's are shown or asked for."""

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


def test_own_code_runs_to_its_end_and_is_asked_for_at_resume(tmp_path):
    place = tmp_path / "towns"
    place.mkdir()
    for name in ("Graz", "Linz", "validation", "test"):
        (place / f"{name}.csv").write_text("age,ill\n0.1,0\n0.2,1\n")
    (tmp_path / "kept_code_of_ours.py").write_text(
        "from unknot.unlearn import RFS\n\n\nclass Mine(RFS):\n    name = 'mine'\n"
    )
    file, out = tmp_path / "own.toml", tmp_path / "run"
    file.write_text(FILE.format(place=place))
    call("run", file, "--out", out)
    assert (out / "config.toml").exists()
    assert "names code, 'kept_code_of_ours:Mine'" in call("resume", out, "--rounds", 1, code=2).output
    told = call("resume", out, "--rounds", 1, "--own-code")
    assert f"reads {place}\n" in told.stderr
    assert "reads" not in call("resume", out, "--rounds", 1, "--own-code", "--quiet").stderr
