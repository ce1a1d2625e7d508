"""``unknot reproduce --check``."""

import gzip
import json
import shutil

import pytest
from typer.testing import CliRunner

from small_reproductions import GAMES, RUNS
from unknot.cli import app
from unknot.reproduce import load, reproduce


def call(*args, code=0, columns=80):
    result = CliRunner().invoke(app, ["reproduce", *map(str, args)], env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = tmp_path_factory.mktemp("done")
    for name, text in {"tiny": RUNS, "play": GAMES}.items():
        (made / f"{name}.toml").write_text(text)
        reproduce(load(str(made / f"{name}.toml")), out=made)
    return made


@pytest.fixture
def folder(done, tmp_path):
    return shutil.copytree(done, tmp_path / "folder")


@pytest.mark.parametrize("name", ["tiny", "play"])
def test_it_says_what_differs_and_draws_it_when_asked(folder, name):
    pytest.importorskip("matplotlib")
    plan, page, picture = (folder / f"{name}{ending}" for ending in (".toml", "-small.md", "-small.png"))
    before = sorted(folder.iterdir())
    said = call(plan, "--check", folder, code=1).stdout
    assert "page and figure not drawn" in said
    assert "0 of 1 pages" in said
    assert sorted(folder.iterdir()) == before, "it only says so"

    assert "page and figure drawn again" in call(plan, "--check", folder, "--draw").stdout
    drawn = page.read_text(), picture.read_bytes()
    assert picture.name in drawn[0]
    assert "as configured" in call(plan, "--check", folder).stdout
    assert not (folder / f"{name}-small.svg").exists()

    page.write_text(drawn[0].replace("It is", "It was"))
    assert "page out of date" in call(plan, "--check", folder, code=1).stdout
    call(plan, "--check", folder, "--draw")
    assert (page.read_text(), picture.read_bytes()) == drawn


def test_a_figure_of_other_findings_is_found_without_drawing_it(folder):
    pytest.importorskip("matplotlib")
    plan = folder / "tiny.toml"
    call(plan, "--check", folder, "--draw")
    plan.write_text(RUNS.replace("thresholds = [0.01]", "thresholds = [0.02]"))
    assert "page and figure out of date" in call(plan, "--check", folder, code=1).stdout
    (folder / "tiny-small.png").unlink()
    said = " ".join(call(plan, "--check", folder, code=1).stdout.split())
    assert "figure not drawn, page out of date" in said


def test_stale_and_missing_runs_are_told_and_drawing_does_not_mend_them(folder):
    plan = folder / "tiny.toml"
    plan.write_text(RUNS.replace("lr = 0.001", "lr = 0.002"))
    said = " ".join(call(plan, "--check", folder, "--draw", code=1).stdout.split())
    assert "stale: p/slow/0, p/slow/1: train.lr is 0.001, today 0.002" in said
    assert "missing: p: slow (seeds 0, 1)" in said
    assert "not run: letters" in said
    assert "needs the data set femnist" in (folder / "tiny-small.md").read_text()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_keeps_to_the_width(folder, columns):
    plan = folder / "tiny.toml"
    plan.write_text(RUNS.replace("lr = 0.001", "lr = 0.002"))
    lines = call(plan, "--check", folder, code=1, columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns


def test_as_json_it_is_a_list_of_pages(folder):
    (item,) = json.loads(call(folder / "tiny.toml", "--check", folder, "--json", code=1).stdout)
    assert (item["name"], item["scale"], item["runs"], item["differs"]) == (
        "tiny",
        "small",
        4,
        ["page", "figure"],
    )
    assert (item["missing"], item["stale"], item["not_run"]) == ([], [], ["letters"])


def test_a_damaged_file_is_an_error_that_names_it(folder):
    file = folder / "tiny-small.json.gz"
    stored = json.loads(gzip.decompress(file.read_bytes()))
    file.write_bytes(gzip.compress(json.dumps({**stored, "format": 7}).encode()))
    said = call(folder / "tiny.toml", "--check", folder, code=2)
    assert "tiny-small.json.gz has format 7" in " ".join(said.stderr.split())


@pytest.mark.parametrize(
    "option",
    ["--seeds=0", "--only=rfs", "--set=train.lr=5", "--out=x", "--device=cpu", "--threads=1", "--together=2"],
)
def test_what_changes_nothing_is_refused(folder, option):
    name = option.partition("=")[0]
    for words in (("--check", folder), ("--list",), ()):
        said = " ".join(call(*words, option, code=2).stderr.split())
        assert name in said
    assert f"{name} does not go with --check" in call("--check", folder, option, code=2).stderr


def test_lists_and_runs_and_checks_are_not_mixed(folder, monkeypatch):
    monkeypatch.setattr("unknot.reproduce.reproduce", lambda *_, **__: pytest.fail("it runs"))
    assert "--long goes with --list" in call("knot-fig4", "--long", code=2).stderr
    assert "--long does not go with --check" in call("--check", folder, "--long", code=2).stderr
    assert "--list does not go with --check" in call("--check", folder, "--list", code=2).stderr
    assert "--json goes with --check DIR, not with --list" in call("--list", "--json", code=2).stderr
    assert "leave out knot-fig4" in call("knot-fig4", "--list", code=2).stderr
    assert "knot-fig4" in call("--list", "--long").stdout
    assert "knot-fig4" in call("--long").stdout


def test_a_scale_chooses_pages(folder):
    plan = folder / "tiny.toml"
    call(plan, "--check", folder, "--draw")
    assert "tiny-small" in call(plan, "--check", folder, "--scale", "small").stdout
    assert "has no page of --scale paper" in call(plan, "--check", folder, "--scale", "paper", code=2).stderr


def test_what_goes_with_check_alone_says_so():
    assert "--draw goes with --check" in call("exact-fig1", "--draw", code=2).stderr
    assert "--json goes with --check" in call("exact-fig1", "--json", code=2).stderr
    assert "not a folder" in call("--check", "nowhere", code=2).stderr
