"""A checkpoint was away and is put back, or is damaged: the run ends as it would have all the same."""

import os
import shutil

import pytest
from kept_runs import build, story

from unknot.core.errors import StoreError
from unknot.store import files
from unknot.store.database import Database
from unknot.store.entries import events_in, read_named, served_in
from unknot.store.keeper import RunKeeper
from unknot.store.look import look

pytest.importorskip("cryptography")

TURNS = 6


@pytest.fixture
def twin():
    return story(build().run(TURNS))


@pytest.fixture
def folder(tmp_path):
    """A run that was kept at each of four steps, and let go of."""
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(TURNS)
    for _ in range(4):
        fed.step()
    keeper.close()
    return tmp_path / "run"


def newest(folder):
    with Database.open(folder / "run.db", readonly=True) as db:
        return folder / "state" / f"{read_named(db.last('checkpoint').body).state}.state"


def taken_up(folder, steps=0, every=1e9):
    """Gone on with for so many steps, and let go of; kept on the way or not."""
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=every)
    for _ in range(steps):
        fed.step()
    at = fed.steps
    keeper.close()
    return at


def ended(folder):
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)
    found = story(fed.resume())
    keeper.close()
    return found


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_newest_checkpoint_may_be_put_back_after_the_run_was_taken_up_without_it(
    folder, twin, tmp_path, times, steps
):
    path = newest(folder)
    for _ in range(times):
        shutil.copy(path, tmp_path / "aside")
        path.unlink()
        taken_up(folder, steps)
        shutil.copy(tmp_path / "aside", path)
        os.chmod(path, 0o600)
        assert look(folder).unreadable == ""
    at = taken_up(folder)
    assert at == 4  # where it had been
    assert ended(folder) == twin
    with Database.open(folder / "run.db", readonly=True) as db:
        assert len(events_in(db)) == len(twin["rounds"]) + len(twin["requests"])
        assert len(served_in(db)) == len(twin["requests"])


def test_a_run_whose_end_was_away_is_finished_once_that_is_put_back(tmp_path):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder)
    fed.run(3)
    keeper.close()
    path = newest(folder)
    shutil.copy(path, tmp_path / "aside")
    path.unlink()
    taken_up(folder)
    assert look(folder).state == "stopped"
    shutil.copy(tmp_path / "aside", path)
    os.chmod(path, 0o600)
    taken_up(folder)
    assert look(folder).state == "finished"


def test_what_was_given_once_is_not_owed_when_its_end_is_computed_again_and_not_given(tmp_path):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder)
    fed.run(3)
    fed.resume(4)
    keeper.close()
    newest(folder).unlink()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder)
    keeper.ended = gone
    with pytest.raises(Gone):
        fed.resume()
    keeper.close()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder)
    assert len(fed.resume(4).rounds) == 11
    keeper.close()


class Gone(BaseException):
    """The process is gone."""


def gone(*args):
    raise Gone


def test_so_it_may_where_the_run_was_kept_once_more_on_the_way(folder, twin, tmp_path):
    path = newest(folder)
    shutil.copy(path, tmp_path / "aside")
    path.unlink()
    before = taken_up(folder)
    assert taken_up(folder, steps=1, every=0.0) == before + 1
    shutil.copy(tmp_path / "aside", path)
    os.chmod(path, 0o600)
    assert ended(folder) == twin


def test_an_end_that_met_a_full_disk_is_kept_by_the_next_resume_also_where_it_had_been_kept_before(
    tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=1e9)
    twin = story(fed.run(4))
    keeper.close()
    newest(folder).unlink()
    fed = build()
    keeper = RunKeeper.go_on(fed, folder, every=1e9)

    def full(name):
        if name.startswith("write_whole") and fed.over:
            raise StoreError("the disk is full")

    monkeypatch.setattr(files, "hook", full)
    with pytest.raises(StoreError, match="full"):
        fed.resume()
    monkeypatch.setattr(files, "hook", None)
    assert story(fed.resume()) == twin
    keeper.close()
    assert newest(folder).exists()
    assert taken_up(folder) == fed.steps


@pytest.mark.parametrize("name", [b"\xff\xfe.state", b"x.state", b"\xc3\xa9\xc3\xa9.state"])
def test_files_of_odd_names_among_the_checkpoints_are_in_nobodys_way(folder, twin, name):
    for more in (b"", *(b"%d" % i for i in range(40))):
        (folder / "state" / os.fsdecode(more + name)).write_bytes(b"")
    found = look(folder, through=True)
    assert (found.unreadable, found.log) == ("", "whole")
    assert found.again is not None
    assert ended(folder) == twin
