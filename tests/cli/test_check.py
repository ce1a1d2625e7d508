import json

import pytest
from typer.testing import CliRunner

from language_files import write_language_world
from unknot.cli import app

FILE = """
[data]
partition = "iid"
clients = 4
samples = 20
validation = 50
[federation]
rounds = 4
[engine]
name = "loop"
[[request]]
erase = 1
round = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return str(path)


def call(*args: str, columns: int = 80, code: int = 0):
    result = CliRunner().invoke(app, ["check", *args], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


def test_it_says_what_a_run_would_do(file):
    output = " ".join(call(file).output.split())
    for text in (
        "4 clients, 80 samples (smallest 20, median 20, largest 20)",
        "63,610 parameters",
        "rfs (exact)",
        "4 rounds, 14 jobs, 14 client epochs",
        "erase client 1 at round 2",
        "2 rounds to recover in",
        "loop on cpu",
        "are estimates",
    ):
        assert text in output


def test_an_estimate_of_what_is_kept_is_called_one(file):
    estimate = "how far back a request goes depends on what is learned"
    told = " ".join(call(file, "--set", "method.name=exact-fun").output.split())
    assert "about" in told.split("kept", 1)[1].split("by the server")[0]
    assert estimate in told
    assert estimate not in " ".join(call(file).output.split())


def test_a_run_that_nobody_is_left_for_is_warned_of_and_has_the_status_of_the_run(file):
    everybody = ("--set", "request=[{erase=[0, 1, 2, 3], round=1}]")
    result = call(file, *everybody, code=4)
    assert "no clients are left, everybody was erased" in " ".join(result.stderr.split())
    assert "1 round, 4 jobs" in " ".join(result.stdout.split())
    assert CliRunner().invoke(app, ["run", file, *everybody]).exit_code == 4


def test_a_request_that_stays_pending_has_the_status_of_the_run(file):
    late = ("--set", "request=[{erase=1, round=9}, {erase=2, round=4}]")
    output = " ".join(call(file, *late, code=3).output.split())
    assert "erase client 1 at round 9: stays pending" in output
    assert "erase client 2 at round 4: at the very end" in output
    assert [one["served"] for one in json.loads(call(file, *late, "--json", code=3).stdout)["requests"]] == [
        True,
        False,
    ]


def test_options_reach_it(file):
    found = json.loads(call(file, "--json", "--engine", "stacked", "--seed", "3").stdout)
    assert found["engine"]["engine"] == "stacked"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_keeps_to_the_width(file, columns):
    assert max(map(len, call(file, columns=columns).output.splitlines())) <= columns


def test_errors_are_those_of_the_run(file):
    for change in ("request=[{erase=7, round=1}]", "federation.per_round=9", "model.name=mpl"):
        told = call(file, "--set", change, code=2).stderr
        assert told.startswith("error: ")
        assert told == CliRunner().invoke(app, ["run", file, "--set", change], env={"COLUMNS": "80"}).stderr


ADAPTED = ("--set", "model.lora.rank=2", "--set", "model.lora.targets=['1', '3']")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_what_is_trained_over_what_is_said(file, columns):
    said = " ".join(call(file, *ADAPTED, columns=columns).output.split())
    base = json.loads(call(file, *ADAPTED, "--json").stdout)["model"]
    assert base["adapters"] == {"rank": 2, "on": ["1", "3"]}
    assert f"mlp: {base['parameters']:,} parameters trained," in said
    assert f"LoRA of rank 2 on 1, 3 over 63,610 frozen, base {base['base'][:8]}" in said
    assert "frozen" not in call(file, columns=columns).output


def test_a_pretrained_model_is_named_by_its_file_too(tmp_path, monkeypatch):
    monkeypatch.chdir(write_language_world(tmp_path))
    monkeypatch.setenv("UNKNOT_DATA", str(tmp_path))
    table = [
        "data.name=langid",
        "data.tokenizer=SmolLM2-135M-Instruct.Q4_1.gguf",
        "data.languages=['Dutch', 'English']",
        "data.context=12",
        "data.samples=4",
        "data.validation=0",
        "model.name=pretrained",
        "model.path=SmolLM2-135M-Instruct.Q4_1.gguf",
        "model.answers=['Dutch', 'English']",
        "model.lora.rank=1",
        "model.lora.targets=['q_proj']",
    ]
    (tmp_path / "a.toml").write_text(FILE)
    said = " ".join(call("a.toml", *(w for one in table for w in ("--set", one))).output.split())
    assert "pretrained (SmolLM2-135M-Instruct.Q4_1): 32 parameters trained, 128 B LoRA of rank 1" in said
