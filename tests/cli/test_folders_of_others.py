"""Commands in a folder that somebody else made: they write nothing outside of it, and wait for no pipe."""

import os
import shutil
import socket

import pytest
from kept_commands import FILE, call

from support import grid
from unknot.store.database import Database
from unknot.store.entries import plain

pytest.importorskip("cryptography")
RESULTS = ("config.toml", "record.json", "report.html", "model.safetensors")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    place = tmp_path_factory.mktemp("base")
    (place / "small.toml").write_text(FILE)
    call("run", place / "small.toml", "--out", place / "run", "--quiet")
    return place / "run"


@pytest.fixture
def run(base, tmp_path):
    return shutil.copytree(base, tmp_path / "run")


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside.png"
    path.write_text("mine")
    return path


def in_place(path, make):
    """What lies there is another thing now."""
    path.unlink(missing_ok=True)
    make(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made, pytest.MonkeyPatch.context() as moved:
        moved.chdir(path.parent)  # a path may be too long for a socket
        made.bind(path.name)


def make_sparse(path):
    with path.open("wb") as made:
        made.truncate(1 << 40)


KINDS = {"pipe": os.mkfifo, "socket": make_socket, "sparse": make_sparse}


@pytest.mark.parametrize(("kind", "mark", "more"), grid(KINDS, ["", ".part."], [[], ["--rounds", 1]]))
def test_resume_puts_its_results_in_the_place_of_whatever_lies_there(run, kind, mark, more):
    for name in RESULTS:
        in_place(run / f"{mark}{name}", KINDS[kind])
    call("resume", run, "--quiet", *more)
    assert all((run / name).is_file() and (run / name).stat().st_blocks < 1 << 16 for name in RESULTS)


@pytest.mark.parametrize("mark", ["", ".part."])
def test_resume_follows_no_link_of_either_kind(run, outside, mark):
    for make in ("symlink_to", "hardlink_to"):
        for name in RESULTS:
            in_place(run / f"{mark}{name}", lambda path, make=make: getattr(path, make)(outside))
        call("resume", run, "--rounds", 1, "--quiet")
        assert outside.read_text() == "mine"
        assert not any((run / name).is_symlink() for name in RESULTS)


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to", "pipe"])
def test_a_picture_in_the_folder_takes_the_place_of_what_lies_there(run, outside, make):
    pytest.importorskip("matplotlib")
    picture = run / "picture.png"
    in_place(picture, os.mkfifo if make == "pipe" else lambda path: getattr(path, make)(outside))
    call("resume", run, "--rounds", 1, "--quiet", "--plot", picture)
    assert outside.read_text() == "mine"
    assert not picture.is_symlink()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_mode & 0o777 == 0o600
    call("forget", run, "--client", 1)
    call("resume", run, "--quiet")
    assert not picture.exists()


def test_what_a_crash_left_of_a_picture_goes_with_who_was_erased(run):
    pytest.importorskip("matplotlib")
    call("resume", run, "--rounds", 1, "--quiet", "--plot", run / "picture.png")
    half = run / ".part-picture.png-0123456789abcdef.png"
    other = run / ".part-another.png-0123456789abcdef.png"
    for path in (half, other):
        path.write_bytes(b"half")
    call("forget", run, "--client", 1)
    call("resume", run, "--quiet")
    assert not half.exists()
    assert other.exists()


@pytest.mark.parametrize("where", ["table.csv", "below/table.csv"])
def test_a_table_in_the_folder_is_refused_wherever_a_link_leads(run, outside, where):
    (run / "below").mkdir()
    (run / where).symlink_to(outside)
    told = call("resume", run, "--rounds", 1, "--quiet", "--csv", run / where, code=2).stderr
    assert "name a place outside of it" in told
    assert outside.read_text() == "mine"


def test_a_picture_that_leads_into_the_folder_is_refused(run, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "link.png").symlink_to(run / "picture.png")
    told = call("resume", run, "--rounds", 1, "--quiet", "--plot", tmp_path / "link.png", code=2).stderr
    assert "name a file in that folder itself" in told


@pytest.mark.parametrize("name", ["keys", "run.db", "record.json"])
def test_a_file_of_holes_is_taken_away_at_once(file, run, name):
    in_place(run / name, make_sparse)
    call("run", file, "--out", run, "--quiet", "--force")
    assert (run / name).stat().st_size < 1 << 30


def test_a_note_of_what_was_left_may_say_anything(file, run):
    with Database.open(run / "run.db") as db:
        db.append([("left", plain({"file": [1]})), ("left", plain([]))])
    call("run", file, "--out", run, "--quiet", "--force")
