"""A copy that may not be written, such as a mounted backup, is looked at all the same."""

import os
import shutil
from pathlib import Path

import pytest
from kept_runs import build, fast_folder, go, remove_tree
from test_forked import said_in_a_child

from unknot.core.requests import erase
from unknot.store import Database, Keyring
from unknot.store.inbox import leave
from unknot.store.look import look
from unknot.store.noted import DATABASE, KEYS
from unknot.store.watching import Watching

pytest.importorskip("cryptography")
NOBODY = 65534


@pytest.fixture
def copy(tmp_path):
    """A function that copies a run, with these files beside its database, so that nobody may write there."""
    place = fast_folder()
    run = tmp_path / "run"
    go(build(), run, requests=(erase(1, round=1),))

    def made(*beside):
        folder = place / "copy"
        with Database.open(run / DATABASE) as db:
            leave(db, erase(2), Keyring(run / KEYS), by="somebody")
            db.append([("note", b"")])  # which lies in the write-ahead log alone
            shutil.copytree(run, folder)
        for end in {"-wal", "-shm"} - set(beside):
            (folder / f"{DATABASE}{end}").unlink()
        own(place)
        return folder

    yield made
    for path in (place, *place.rglob("*")):
        path.chmod(0o700)
    remove_tree(place)


def own(place: Path) -> None:
    for path in (*place.rglob("*"), place):
        path.chmod(0o500 if path.is_dir() else 0o400)
        if not os.geteuid():
            os.chown(path, NOBODY, NOBODY)


def told(work):
    """What `work` says to somebody who may read, and not write."""

    def without_rights():
        if not os.geteuid():
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        return work()

    return said_in_a_child(without_rights)


def test_a_run_is_looked_at_where_nobody_may_write(copy):
    folder = copy()
    assert told(lambda: look(folder).requests[0].state) == "done: waiting"
    assert told(lambda: Watching(folder).look()[0].state) == "done: finished"
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(DATABASE)) == [DATABASE]


def test_what_lies_in_the_write_ahead_log_is_read_or_it_is_said_that_it_cannot_be(copy):
    folder = copy("-wal")
    found = told(lambda: look(folder))
    assert found.startswith("refused: ")
    assert f"{DATABASE}-wal" in found
    assert "copy the folder to where you may write" in found


def test_with_both_files_beside_it_all_of_it_is_read(copy):
    folder = copy("-wal", "-shm")
    assert told(lambda: Database.open(folder / DATABASE, readonly=True).last("note").kind) == "done: note"
