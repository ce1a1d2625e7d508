"""``unknot data``: what there is, and where."""

from typer.testing import CliRunner

from unknot.cli import app


def call(*args: str, code: int = 0):
    result = CliRunner().invoke(app, [*args], env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    return result


def test_the_lists_name_what_there_is():
    assert "digits" in call("data").output
    assert "ok" in call("data", "--verify", "digits").output


def test_every_data_set_is_listed_with_its_place_its_source_and_its_checksum():
    from unknot.data import catalogue

    output = "".join(CliRunner().invoke(app, ["data", "--long"], env={"COLUMNS": "400"}).output.split())
    for entry in catalogue():
        for text in (entry.name, *entry.where, entry.how, *entry.checksums.values()):
            assert "".join(text.split()) in output, text


def test_checksums_are_short_unless_they_are_asked_for_whole():
    from unknot.data import catalogue

    first = next(iter(catalogue()[0].checksums.values()))
    short = call("data").output
    assert f"{first[:12]}…" in short
    assert first[:13] not in short
    assert "…" not in call("data", "--long").output  # in a narrow terminal, too
