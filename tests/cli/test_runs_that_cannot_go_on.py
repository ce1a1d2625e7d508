"""A run that cannot be gone on with as it lies there: that is said, and no hint leads to a refusal."""

import errno
import os
import shlex
import shutil
import sqlite3

import pytest
from kept_commands import FILE, call, shown

from unknot.store import Database

pytest.importorskip("cryptography")


@pytest.fixture
def out(tmp_path):
    file, out = tmp_path / "run.toml", tmp_path / "run"
    file.write_text(FILE)
    call("run", file, "--out", out, "--quiet", "--checkpoint", 0)
    return out


def spoil(path):
    path.write_bytes(b"x" + path.read_bytes()[1:])


def damage_the_log(out):
    with sqlite3.connect(out / "run.db") as connection:
        connection.execute("UPDATE log SET body = x'00' WHERE number = 3")
    connection.close()


def test_nothing_is_asked_of_a_run_whose_database_is_to_be_put_back(out):
    """What was asked would be lost with it."""
    damage_the_log(out)
    for command in ("forget", "admit"):
        assert "damaged" in call(command, out, "--client", "1", code=2).stderr
    assert "damaged" in call("resume", out, code=2).stderr
    with Database.open(out / "run.db", readonly=True) as db:
        assert db.asked() == []


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_a_checkpoint_that_can_be_read_it_is_said_and_there_is_no_hint(out, how):
    files = list((out / "state").iterdir())
    assert len(files) == 2
    for path in files:
        path.unlink() if how == "missing" else spoil(path)
    found = shown(out)
    assert found["again"] is None
    assert "take state/ from a backup" in found["unreadable"]
    told = call("show", out).stdout
    assert "cannot be gone on with" in told
    assert "take state/ from a backup" in told
    assert "unknot resume" not in told
    assert "can be read" in call("resume", out, "--rounds", 1, code=2).stderr


def test_what_is_asked_of_a_run_without_checkpoints_waits_and_what_is_to_be_done_first_is_said(out, tmp_path):
    shutil.move(out / "state", tmp_path / "backup")
    told = call("forget", out, "--client", 1).stdout
    assert "unknot resume" not in told
    assert "cannot be gone on with as it is: its checkpoints are not in" in told
    assert "take state/ from a backup" in told
    assert "take state/ from a backup" in call("admit", out, "--client", 1, "--wait", code=2).stderr
    shutil.copytree(tmp_path / "backup", out / "state")
    call("resume", out, "--quiet")
    assert [one["state"] for one in shown(out)["requests"]] == ["served"]


def test_checkpoints_that_may_not_be_read_are_not_called_missing(out, monkeypatch):
    scan = os.scandir

    def refused(path):
        if str(path).endswith("state"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = shown(out)
    assert found["again"] is None
    assert "state cannot be looked into (Permission denied)" in found["unreadable"]
    assert "backup" not in found["unreadable"]
    told = call("runs", out.parent).stdout
    assert "may hold runs" not in told


def test_one_checkpoint_that_can_be_read_is_enough_and_where_it_goes_on_is_said(out):
    before = shown(out)
    with Database.open(out / "run.db", readonly=True) as db:
        digests = [path.stem for path in (out / "state").iterdir()]
        newest = max(digests, key=lambda one: [e.number for e in db.entries() if one.encode() in e.body])
    spoil(out / "state" / f"{newest}.state")
    found = shown(out)
    assert (found["unreadable"], found["again"]) == ("", before["again"])
    told = call("resume", out, "--rounds", 1).stderr
    assert "it goes on from the checkpoint before that, of round 3: what came since is computed again" in told
    assert shown(out)["rounds"] == 4


def test_broken_off_before_its_first_checkpoint_it_is_said_how_it_is_begun_again(out):
    for path in (out / "state").iterdir():
        path.unlink()
    with sqlite3.connect(out / "run.db") as connection:
        connection.execute("DELETE FROM log WHERE number > 1")
    connection.close()
    found = shown(out)
    assert found["again"] is None
    assert "begin it again with the same unknot run" in found["unreadable"]
    told = call("show", out).stdout
    assert "begin it again with the same unknot run" in told
    assert "not known: nothing was kept yet" in told


@pytest.mark.parametrize("name", ["a b", "-dash", "it's"])
def test_hints_can_be_typed_as_they_stand_whatever_the_folder_is_called(out, tmp_path, monkeypatch, name):
    shutil.move(out, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    place = f"./{name}" if name.startswith("-") else name
    told = call("forget", place, "--client", "1").stdout
    hint = told.rsplit("To have it served: ", 1)[1].strip()
    again = call("forget", place, "--client", "1", code=2).stderr
    look = again[again.index("unknot show ") : again.index(" tells what becomes of it")]
    for line in (look, hint):
        program, *words = shlex.split(line)
        assert program == "unknot"
        call(*words)
    assert shown(place)["requests"][0]["state"] == "served"
