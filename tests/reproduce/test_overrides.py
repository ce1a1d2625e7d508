"""What --set may change: not what tells lines, panels and seeds apart."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from small_reproductions import RUNS
from small_reproductions import runs as tiny
from unknot.cli import app
from unknot.core.errors import ConfigError
from unknot.reproduce import findings, load, reproduce
from unknot.reproduce.record_file import kept


def refused(name, scale, change, tmp_path):
    with pytest.raises(ConfigError) as error:
        reproduce(load(name), scale, out=tmp_path, overrides=[change])
    assert not list(tmp_path.iterdir())
    return str(error.value)


@pytest.mark.parametrize("change", ["method.name=bmt", "method={name='bmt'}", " method.name = bmt"])
def test_a_line_is_its_method(change, tmp_path):
    told = refused("exact-fig1", "small", change, tmp_path)
    assert told.startswith("--set method")
    assert "a line is its method" in told
    assert "--only picks lines, such as --only rfs" in told


def test_what_lines_differ_in_is_theirs(tmp_path):
    told = refused("incentive-fig5a", "small", "select.name=uniform", tmp_path)
    assert "the lines of incentive-fig5a differ in select.name" in told
    with pytest.raises(ConfigError, match=r"--set train.lr: the lines of tiny differ in train.lr"):
        reproduce(tiny(), out=tmp_path, overrides=["train.lr=0.3"])


@pytest.mark.parametrize(
    ("name", "scale", "change"),
    [
        ("exact-fig6b", "small", "train.lr=0.02"),
        ("exact-fig1", "paper", "data.name=digits"),
        ("exact-fig1", "small", "data.name=mnist"),  # a panel is called digits: there are others
        ("exact-fig3a", "small", "data.name=mnist"),
        ("exact-fig2", "small", "request=[]"),
        ("exact-fig1", "paper", "model={name='mlp'}"),
    ],
)
def test_what_panels_differ_in_is_theirs(name, scale, change, tmp_path):
    told = refused(name, scale, change, tmp_path)
    key = change.split("=")[0]
    assert f"the panels of {name} differ in {key}, and their titles would be untrue" in told
    assert f'a file of your own, like = "{name}", may have others' in told


def test_who_is_drawn_to_leave_is_not_set(tmp_path):
    told = refused("exact-fig3c", "small", "request=[{erase = 1, round = 3}]", tmp_path)
    assert "the cases of exact-fig3c differ in request" in told


def test_the_seed_and_the_name_of_a_run_are_its_own(tmp_path):
    assert "--seeds names them" in refused("exact-fig1", "small", "seed=3", tmp_path)
    assert "after its panel and its line" in refused("exact-fig1", "small", "name=x", tmp_path)


def test_anything_else_is_set(tmp_path):
    file = reproduce(tiny(), out=tmp_path, seeds=[0], only=["p", "rfs"], overrides=["train.batch_size=7"])
    (record,) = kept(file).values()
    assert record["config"]["train"]["batch_size"] == 7


# On the page -------------------------------------------------------------------------------------


def test_a_page_says_below_its_title_what_is_not_the_files(tmp_path):
    changes = ["train.batch_size=7", "federation.rounds=3"]
    plan, file = tiny(), tmp_path / "none.json.gz"
    plain = findings(plan, "small", file).claim
    assert plain == plan.claim
    told = findings(plan, "small", file, overrides=changes).claim
    assert told == (
        f"{plain}\n\nWith `train.batch_size=7` and `federation.rounds=3`, "
        "which is not the file's configuration."
    )
    game = load("incentive-fig4a")
    told = findings(game, "small", file, overrides=["game.phi=0.25"]).claim
    assert told.endswith("\n\nWith `game.phi=0.25`, which is not the file's configuration.")


def test_records_of_other_settings_are_replaced_in_words(tmp_path):
    def told(plan, **options):
        said = []
        reproduce(plan, out=tmp_path, tell=said.append, **options)
        return [text for text in said if "replace" in text]

    options = {"seeds": [0], "only": ["p"]}
    assert told(tiny(), **options) == []
    assert told(tiny(), **options) == []
    (text,) = told(tiny(), **options, overrides=["train.batch_size=7"])
    file = tmp_path / "tiny-small.json.gz"
    assert text == (
        f"2 runs replace records of other settings in {file}: train.batch_size is not set, today 7; "
        "--out DIR keeps both"
    )
    (text,) = told(tiny(), seeds=[0], only=["p", "rfs"])
    assert text.startswith("1 run replaces a record of other settings")
    assert "train.batch_size is 7, today not set" in text
    game = load("incentive-fig4a")
    assert told(game, seeds=[0, 1]) == []
    (text,) = told(game, seeds=[0, 1, 2], overrides=["game.phi=0.25"])
    assert text.startswith("2 draws replace records of other settings in ")
    assert "game.phi is" in text


@pytest.mark.parametrize(
    "change", ["model.activation='tanh'", 'model.activation="tanh"', "train.batch_size=5"]
)
def test_the_pages_command_is_one_that_can_be_typed_again(change, tmp_path):
    file = tmp_path / "my figure.toml"
    file.write_text(re.sub(r".*femnist.*\n", "", RUNS))
    asked = ["--seeds", "0, 1", "--set", change, "--out", str(tmp_path)]
    told = CliRunner().invoke(app, ["reproduce", str(file), *asked])
    assert told.exit_code == 0, told.output
    page = (tmp_path / "my figure-small.md").read_text()
    (command,) = [line[2:] for line in page.splitlines() if line.startswith("$ ")]
    assert shlex.split(command)[2:] == [str(file), "--scale", "small", "--seeds", "0,1", "--set", change]
    checked = CliRunner().invoke(app, ["reproduce", str(file), "--check", str(tmp_path)])
    assert checked.exit_code == 0, checked.output
