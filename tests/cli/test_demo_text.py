"""``unknot demo --text``: what is shown, and what it exits with."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.experiments import text_demo
from unknot.experiments.text_demo import Size

SMALL = Size(
    letters=10, public=40, steps=3, width=16, layers=1, rank=2, epochs=1, rounds=2, after=1, candidates=255
)


@pytest.fixture(scope="module")
def small():
    return text_demo.text_demo(seed=0, size=SMALL)


@pytest.fixture
def demo(monkeypatch, small):
    """The command on a demo that was made already, with some of its findings replaced."""

    def call(*args: str, code: int, columns: int = 80, **changed: object):
        monkeypatch.setattr(text_demo, "text_demo", lambda seed, tell: replace(small, seed=seed, **changed))
        result = CliRunner().invoke(app, ["demo", "--text", *args], env={"COLUMNS": str(columns)})
        assert result.exit_code == code, result.output
        return result

    return call


def test_what_is_served_after_the_erasure_is_what_one_serves_that_never_had_the_letters(small):
    assert small.same
    assert small.digests[0] == small.digests[1]
    assert small.after.to_dict() == small.never.to_dict()
    assert small.before.to_dict() != small.after.to_dict()
    assert small.guarantee == "exact"


def test_a_secret_that_was_not_even_learned_shows_nothing_and_has_a_status_of_its_own(demo, small):
    assert not small.exposed  # after three steps of the base and two rounds
    assert "no power" in demo(code=4).output


def test_a_secret_that_was_exposed_and_is_gone_is_a_success(demo, small):
    exposed = replace(small.before, exposure=replace(small.before.exposure, below=(0,)))
    said = " ".join(demo(code=0, before=exposed).output.split())
    assert "before the erasure │" in said
    assert "the secret was exposed" in said
    assert small.secret in said
    assert "the same model, bit for bit" in said
    assert "│ rank │ bits" in said.replace("┃", "│")
    assert f"{small.frozen:,} parameters, trained just now" in said
    assert f"adapters of {small.trained:,} parameters" in said


def test_models_that_differ_are_a_failure(demo):
    for more in ((), ("--json",), ("--quiet",)):
        assert "not the same model" in demo(*more, code=1, same=False).output


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_figure_is_cut(demo, columns):
    lines = demo(code=4, columns=columns).output.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert not any("…" in line for line in lines)


def test_the_record_is_json_and_nothing_else(demo):
    record = json.loads(demo("--json", "--seed", "3", code=4).stdout)
    assert (record["seed"], record["erased"], record["same"]) == (3, "Graz", True)
    assert set(record["models"]) == {"base", "before", "after", "never"}
    assert demo("--quiet", code=4).output == ""


def test_what_it_does_not_leave_is_refused(demo, tmp_path):
    for option in (["--out", str(tmp_path / "run")], ["--csv", str(tmp_path / "run.csv")]):
        assert "leaves no files" in demo(*option, code=2).output
