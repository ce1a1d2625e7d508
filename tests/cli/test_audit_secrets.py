"""``unknot audit --secrets``: what it shows, and what it exits with."""

import json

import pytest
from typer.testing import CliRunner

from text_worlds import FILE, speeches
from unknot.cli import app
from unknot.experiments import planted


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "speakers.toml"
    path.write_text(
        FILE.replace('name = "shakespeare"', f'name = "shakespeare"\nroot = "{speeches(tmp_path)}"')
    )
    return str(path)


def call(*args, code=0, columns=120):
    result = CliRunner().invoke(app, ["audit", *args], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


def test_an_audit_of_secrets_says_how_far_they_are_exposed_and_keeps_to_the_width(file):
    result = call(file, "--secrets", "4", "--repeats", "9", columns=60)
    text = " ".join(result.stdout.split())
    assert text.startswith(
        "speakers: client 1 erased, with 4 secrets of 6 out of 8 tokens in its texts, each 9"
    )
    for words in (
        "before",
        "served",
        "controls",
        "10 at most",
        "Before the erasure they were exposed.",
        "(two-sided)",
    ):
        assert words in text
    assert max(map(len, result.stdout.splitlines())) <= 60
    assert "…" not in result.stdout


@pytest.mark.parametrize("outcome", ["still shows", "over-forgotten", "no trace found", "no power"])
def test_the_statuses_of_secrets_are_those_of_an_audit(file, monkeypatch, outcome):
    class Found:
        def to_dict(self):
            return {"outcome": outcome}

    def asked(experiment, secrets, **options):
        assert (secrets.number, secrets.repeats) == (5, 8)
        return Found()

    monkeypatch.setattr(planted, "with_secrets", asked)
    status = {"no trace found": 0, "no power": 4}.get(outcome, 1)
    found = call(file, "--secrets", "5", "--json", code=status)
    assert json.loads(found.stdout) == {"outcome": outcome}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--secrets", "0"], "number must be at least 1, not 0"),
        (["--secrets", "4", "--repeats", "0"], "repeats must be at least 1, not 0"),
        (["--secrets", "4", "--canaries", "9"], "--canaries and --secrets are 2 audits: ask for one of them"),
        (["--secrets", "4", "--html", "a.html"], "not for marks, canaries or secrets"),
        (["--secrets", "4", "--set", "data.context=7"], "do not fit texts of 7 tokens"),
    ],
)
def test_what_cannot_be_audited_is_said_before_anything_is_trained(file, monkeypatch, options, sentence):
    monkeypatch.setattr(planted, "train", None)
    assert sentence in " ".join(call(file, *options, code=2).output.split())
