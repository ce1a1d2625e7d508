"""Whether a page's records are what today's configuration asks for; nothing is run, no data is read."""

import re
import shutil
from dataclasses import replace

import pytest

from small_reproductions import GAMES, RUNS
from unknot.core.errors import DataError
from unknot.reproduce import check, load, pages, reproduce
from unknot.reproduce.checking import Stale, _numbers
from unknot.reproduce.differences import difference
from unknot.reproduce.record_file import keep, kept

PLAN = "tiny.toml"
DRAWN = RUNS.replace("seeds = [0, 1]", "seeds = [0]\ndraws = { count = 1, probabilities = [0.5, 0.5] }")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = tmp_path_factory.mktemp("done")
    path = write(made)
    reproduce(load(path), out=made, seeds=[0])
    reproduce(load(path), out=made, seeds=[1], only=["rfs"])
    return made


@pytest.fixture
def folder(done, tmp_path):
    """With records of all that can be run of one seed, and of half of the other's."""
    return shutil.copytree(done, tmp_path / "folder")


def write(folder, text=RUNS, name=PLAN):
    (folder / name).write_text(text)
    return str(folder / name)


def checked(folder, name=PLAN):
    (asked,) = pages(folder, str(folder / name))
    return check(asked)


def test_what_is_not_recorded_is_named_by_panel_line_and_seeds(folder):
    found = checked(folder)
    assert found.runs == 3
    assert found.missing == ("p: slow (seed 1)",)
    assert found.not_run == ("letters",)
    assert (found.stale, found.scale) == ((), "small")


def test_records_that_fit_no_run_are_stale_and_say_which_settings_differ(folder):
    write(folder, RUNS.replace("lr = 0.001", "lr = 0.002").replace("samples = 10,", "samples = 11,"))
    found = checked(folder)
    assert (found.runs, found.missing) == (0, ())
    assert (found.not_run, found.earlier) == (("letters",), ("p",))
    both, slow = sorted(found.stale, key=lambda stale: len(stale.why))
    assert both.records == ("p/rfs/0", "p/rfs/1")
    assert both.why == "data.samples is 10, today 11"
    assert slow.records == ("p/slow/0",)
    assert slow.why == "data.samples is 10, today 11; train.lr is 0.001, today 0.002"


def test_records_of_a_line_that_is_gone_are_stale(folder):
    write(folder, RUNS.replace('name = "slow", ', 'name = "slower", ').replace("0.001", "0.01"))
    (stale,) = checked(folder).stale
    assert stale.records == ("p/slow/0",)
    assert "no such" in stale.why


def test_another_name_is_not_stale(folder):
    write(folder, RUNS.replace('name = "slow", ', 'name = "slower", '))
    assert checked(folder).stale == ()


def test_a_seed_that_nobody_asks_for_is_stale(folder):
    write(folder, RUNS.replace("seeds = [0, 1]", "seeds = [0]"))
    found = checked(folder)
    assert (found.stale, found.missing) == ((Stale(("p/rfs/1",), "seed 1 is not asked for"),), ())
    page = folder / "tiny-small.md"
    page.write_text("$ unknot reproduce tiny.toml --scale small --seeds 0,1\n")
    assert checked(folder).stale == ()
    page.write_text("$ unknot reproduce tiny.toml --scale small --seeds 1\n")
    assert checked(folder).stale == (Stale(("p/rfs/0", "p/slow/0"), "seed 0 is not asked for"),)


def test_what_another_reproduction_takes_over_is_not_stale(folder, monkeypatch):
    write(folder, RUNS.replace("seeds = [0, 1]", "seeds = [0]"))
    user = replace(load(write(folder, RUNS, "user.toml")), uses=("tiny",))
    monkeypatch.setattr("unknot.reproduce.checking.names", lambda: ("user",))
    own = load(str(folder / PLAN))
    monkeypatch.setattr("unknot.reproduce.checking.load", lambda name: user if name == "user" else own)
    assert checked(folder).stale == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": "p/rfs/7"}, "by its configuration it is p/rfs/0"),
        ({"key": "p/slow/1"}, "by its configuration it is p/rfs/0"),
        ({"key": "q/rfs/0/client 3 leaves"}, "by its configuration it is p/rfs/0"),
        ({"key": "p/rfs/0/again"}, "by its configuration it is p/rfs/0"),
    ],
)
def test_a_record_under_the_name_of_another_run_is_named(folder, change, why):
    (asked,) = pages(folder, str(folder / PLAN))
    first = kept(asked.file)["p/rfs/0"]
    keep(asked.file, {**first, **change})
    assert check(asked).stale == (Stale((change["key"],), why),)


@pytest.mark.parametrize("key", ["p/rfs/0/client 2 leaves", "p/rfs/0", "p/rfs/0/again"])
def test_where_leavers_are_drawn_a_record_goes_by_who_leaves(tmp_path, key):
    path = write(tmp_path, DRAWN)
    plan = load(path)
    reproduce(plan, out=tmp_path, seeds=[0], only=["rfs"])
    assert checked(tmp_path).stale == ()
    (asked,) = pages(tmp_path, path)
    own, record = next(iter(kept(asked.file).items()))
    assert re.fullmatch(r"p/rfs/0/client [01] leaves", own)
    keep(asked.file, {**record, "key": key})
    assert check(asked).stale == (Stale((key,), f"by its configuration it is {own}"),)


def test_a_guarantee_that_is_no_longer_given_is_named(folder):
    (asked,) = pages(folder, str(folder / PLAN))
    first = kept(asked.file)["p/rfs/0"]
    keep(asked.file, {**first, "history": {**first["history"], "guarantee": "none"}})
    (stale,) = check(asked).stale
    assert stale == Stale(("p/rfs/0",), "its guarantee is 'none', and today's is 'exact'")


def test_a_record_whose_seed_was_changed_is_named(folder):
    (asked,) = pages(folder, str(folder / PLAN))
    first = kept(asked.file)["p/rfs/0"]
    keep(asked.file, {**first, "config": {**first["config"], "seed": 6}})
    found = check(asked)
    assert found.stale == (Stale(("p/rfs/0",), "by its configuration it is p/rfs/6"),)
    assert found.missing == ("p: rfs (seed 0), slow (seed 1)",)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tiny.toml --set 'train.lr=1", "tiny-small.md: its command cannot be read (No closing quotation)"),
        ("tiny.toml --seeds 0,x", "tiny-small.md: its command cannot be read (seeds are whole numbers"),
        ("other --scale small", "tiny-small.md has the command of another page"),
        ("tiny.toml --scale paper", "tiny-small.md has the command of another page"),
        ("", "tiny-small.md has the command of another page"),
        ("tiny.toml --only rfs", "tiny-small.md: its command cannot be read ('--only' is no part of it"),
        ("tiny.toml --device=cpu", "cannot be read ('--device=cpu' is no part of it"),
        ("tiny.toml && rm x", "cannot be read ('&&' is no part of it"),
        ("tiny.toml --seeds 0-4 --seeds 0", "cannot be read (it has --seeds twice)"),
        ("tiny.toml --scale=small --scale small", "cannot be read (it has --scale twice)"),
        ("tiny.toml --set", "cannot be read (--set has no value)"),
    ],
)
def test_a_command_that_is_not_the_pages_own_is_an_error(folder, command, message):
    (folder / "tiny-small.md").write_text(f"$ unknot reproduce {command}\n")
    with pytest.raises(DataError, match=re.escape(message)):
        pages(folder, str(folder / PLAN))


def test_a_panel_that_is_never_run_is_told_among_those_that_were_not(folder):
    write(folder, RUNS.replace('title = "letters",', 'title = "letters", not_run = "Not to be had.",'))
    assert checked(folder).not_run == ("letters",)


def test_a_page_is_asked_what_its_own_command_says(folder):
    (folder / "tiny-small.md").write_text(
        "$ unknot reproduce tiny.toml --seeds 0 --set 'train.batch_size=7'\n"
    )
    (asked,) = pages(folder, str(folder / PLAN))
    assert (asked.seeds, asked.overrides) == ((0,), ("train.batch_size=7",))
    (folder / "tiny-small.md").write_text(
        "$ unknot reproduce tiny.toml --set=train.lr=5 --seeds=0 --set train.batch_size=7\n"
    )
    (other,) = pages(folder, str(folder / PLAN))
    assert (other.seeds, other.overrides) == ((0,), ("train.lr=5", "train.batch_size=7"))
    assert "train.batch_size is not set, today 7" in check(asked).stale[0].why


def test_what_cannot_be_traced_is_counted(folder):
    (asked,) = pages(folder, str(folder / PLAN))
    first, second, third = kept(asked.file).values()
    marks = (
        {"commit": "abc", "clean": True},
        {"commit": "abc", "clean": False},
        {"commit": None, "clean": None},
    )
    keep(asked.file, *({**item, **mark} for item, mark in zip((first, second, third), marks, strict=True)))
    assert check(asked).doubts == {"from abc with changes to it": 1, "without a commit": 1}


def test_games_are_checked_by_draws(tmp_path):
    path = write(tmp_path, GAMES, "play.toml")
    reproduce(load(path), out=tmp_path, seeds=[0, 2])
    found = checked(tmp_path, "play.toml")
    assert (found.runs, found.missing, found.not_run, found.stale) == (2, ("draw 1",), (), ())
    (tmp_path / "play-small.md").write_text("$ unknot reproduce play.toml --seeds 0\n")
    assert checked(tmp_path, "play.toml").stale == (Stale(("draw 2",), "not asked for"),)
    (tmp_path / "play-small.md").unlink()
    (asked,) = pages(tmp_path, path)
    whole = asked.file.read_bytes()
    keep(asked.file, {**kept(asked.file)["draw 0"], "key": "draw 1"})
    assert check(asked).stale == (Stale(("draw 1",), "by its configuration it is draw 0"),)
    asked.file.write_bytes(whole)
    write(tmp_path, GAMES.replace("clients = 4", "clients = 5"), "play.toml")
    found = checked(tmp_path, "play.toml")
    assert (found.runs, found.not_run) == (0, ("p",))
    (stale,) = found.stale
    assert stale.records == ("draw 0", "draw 2")
    assert stale.why == "game.clients is 4, today 5"


def test_a_folder_without_pages_says_so(tmp_path):
    with pytest.raises(DataError, match="no page and no records of tiny"):
        pages(tmp_path, write(tmp_path))
    with pytest.raises(DataError, match="no page and no records of a reproduction"):
        pages(tmp_path)
    with pytest.raises(DataError, match="not a folder"):
        pages(tmp_path / "nowhere")


def test_a_folder_with_pages_of_ones_own_alone_says_how_to_name_them(folder):
    expected = f"{folder} has pages of tiny, which did not come with unknot: name the file of one, "
    with pytest.raises(
        DataError, match=re.escape(f"{expected}`unknot reproduce tiny.toml --check {folder}`")
    ):
        pages(folder)


def test_a_scale_chooses_among_the_pages(folder):
    path = str(folder / PLAN)
    assert [asked.scale for asked in pages(folder, path, "small")] == ["small"]
    with pytest.raises(DataError, match="has no page of --scale paper: those there are of small"):
        pages(folder, path, "paper")


def test_numbers_and_differences_are_short():
    assert [_numbers("seed", some) for some in ([3], [0, 1], [0, 1, 2], [0, 2, 3])] == [
        "seed 3",
        "seeds 0, 1",
        "seeds 0 to 2",
        "seeds 0, 2, 3",
    ]
    many = difference({"name": "x", **dict.fromkeys("abcde", 1)}, {"name": "y", **dict.fromkeys("abcde", 2)})
    assert many == "a is 1, today 2; b is 1, today 2; c is 1, today 2; and 2 more"
