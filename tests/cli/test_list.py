import json

import pytest
from typer.testing import CliRunner

from unknot.cli import app
from unknot.experiments.catalogue import KINDS
from unknot.experiments.reference import page
from unknot.unlearn import METHODS


def call(*args: str, columns: int = 80, code: int = 0):
    result = CliRunner().invoke(app, ["list", *args], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_every_list_is_readable_at_any_width(columns):
    for args in ((), ("methods",), ("data",), ("methods", "knot"), ("engines", "stacked")):
        output = call(*args, columns=columns).output
        assert max(map(len, output.splitlines())) <= columns
        assert "…" not in output


def test_kinds_and_names_are_listed():
    output = call().output
    for kind in KINDS:
        assert kind in output
    for name in ("mmt", "lenet5", "folder", "dirichlet", "adahessian", "pareto", "stacked"):
        assert name in output


def test_methods_are_listed_with_their_guarantee():
    output = call("methods").output
    for name in METHODS:
        assert name in output
    assert "approximate" in output
    words = {line.split()[1]: line.split()[3] for line in output.splitlines() if len(line.split()) > 4}
    assert (words["mmt"], words["knot"], words["exact-fun"]) == ("exact", "exact*", "exact*")
    assert "unknot list methods NAME" in output


def test_one_thing_is_shown_with_options_defaults_and_how_to_write_it():
    output = call("optimisers", "sgd").output
    for text in ("momentum", "Share of the last step", "(number)", "[train]", 'optimizer = "sgd"', "docs/"):
        assert text in output
    assert "must be given" in call("partitions", "labels").output
    assert "guarantee: exact, but for" in " ".join(call("method", "knot").output.split())


def test_json_is_json_and_nothing_else():
    assert [one["kind"] for one in json.loads(call("--json").stdout)] == list(KINDS)
    (mmt,) = [one for one in json.loads(call("methods", "--json").stdout) if one["name"] == "mmt"]
    assert mmt == json.loads(call("methods", "mmt", "--json").stdout)
    assert mmt["settings"][0]["default"] == '"huffman"'


def test_the_reference_is_a_page():
    assert call("--reference").stdout == page()
    assert "leave KIND" in call("methods", "--reference", code=2).output


def test_misspelt_words_are_told_the_nearest():
    assert "Did you mean 'methods'?" in call("metods", code=2).output
    assert "Did you mean 'mmt'?" in call("methods", "mtm", code=2).output
