"""``unknot game``."""

import json

from typer.testing import CliRunner

from unknot.cli import app


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_game_is_a_command(tmp_path):
    path = tmp_path / "game.toml"
    path.write_text("psi = [150, 200]\nzeta = [12, 15]\nf_u = [90, 100]\nf_c = [32, 35]\ndata = [85, 100]\n")
    assert set(json.loads(call("game", str(path), "--json").stdout)) == {
        "evolutionary",
        "random",
        "round_robin",
        "greedy",
    }
    path.write_text("psy = [1]\n")
    assert "Did you mean 'psi'?" in " ".join(call("game", str(path), code=2).output.split())
    assert "game" in call("--help").output
