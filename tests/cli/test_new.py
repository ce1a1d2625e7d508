import tomllib

from typer.testing import CliRunner

from unknot.cli import app
from unknot.experiments.starter import starter


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, ["new", *args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_the_file_goes_to_the_output_and_nothing_else_does():
    assert call().stdout == starter()
    assert tomllib.loads(call("--method", "mmt").stdout)["method"]["name"] == "mmt"
    assert tomllib.loads(call("--data", "mnist").stdout)["data"]["name"] == "mnist"


def test_a_misspelt_method_is_told_the_nearest():
    assert "Did you mean 'mmt'?" in call("--method", "mtm", code=2).output
