"""A file of the folder that has another name too (a hard link) is not written: that name may be anybody's."""

import os
import shutil

import pytest
from kept_runs import build, go

from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring, Lock
from unknot.store.folder import discard
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import KeyLock
from unknot.store.look import look
from unknot.store.noted import DATABASE, KEYS

pytest.importorskip("cryptography")
pytestmark = pytest.mark.usefixtures("in_time")
SAID = "has another name too .*put a copy of it in its place"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    run = tmp_path_factory.mktemp("base") / "run"
    go(build(), run)
    return run


@pytest.fixture
def run(base, tmp_path):
    return shutil.copytree(base, tmp_path / "run")


def linked(run, name, content=b"somebody's"):
    """A file elsewhere, which the run's folder has under that name."""
    outside = run.parent / f"outside-{name}"
    outside.write_bytes(content)
    (run / name).unlink(missing_ok=True)
    (run / name).hardlink_to(outside)
    return outside


def content_of(run):
    return {path.name: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["lock", f".lock-{KEYS}"])
def test_a_lock_is_not_written_over(run, name):
    outside = linked(run, name)
    with pytest.raises(StoreError, match=SAID):
        RunKeeper.go_on(build(), run)
    with pytest.raises(StoreError, match=SAID):
        discard(run)
    with pytest.raises(StoreError, match=SAID), Lock(run) if name == "lock" else KeyLock(run / KEYS):
        pass
    assert outside.read_bytes() == b"somebody's"
    assert (run / DATABASE).exists()


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"])
def test_a_database_is_not_written_and_nothing_else_before(run, name):
    outside = linked(run, name, (run / name).read_bytes() if (run / name).exists() else b"somebody's")
    kept, before = outside.read_bytes(), content_of(run)
    with pytest.raises(StoreError, match=SAID):
        RunKeeper.go_on(build(), run)
    with pytest.raises(StoreError, match=SAID), Database.open(run / DATABASE) as db:
        leave(db, erase(1), Keyring(run / KEYS))
    assert outside.read_bytes() == kept
    assert content_of(run) == before


def test_who_looks_is_refused_what_it_would_write(run):
    outside = linked(run, f"{DATABASE}-shm")
    with pytest.raises(StoreError, match=SAID):
        look(run)
    assert outside.read_bytes() == b"somebody's"


def test_who_looks_reads_the_database_of_a_backup_of_links(run):
    backup = run.parent / "backup"
    shutil.copytree(run, backup, copy_function=os.link)
    before = {path.name: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert look(backup).state == look(run).state
    assert {name: content_of(run)[name] for name in before} == before


def test_with_a_copy_in_its_place_a_run_goes_on(run):
    for name in ("lock", DATABASE):
        outside = linked(run, name, (run / name).read_bytes())
        shutil.copy(run / name, run.parent / "copy")
        (run.parent / "copy").rename(run / name)
        assert outside.stat().st_nlink == 1
    RunKeeper.go_on(build(), run).close()


@pytest.mark.parametrize("name", ["lock", f".lock-{KEYS}"])
def test_a_lock_that_is_no_plain_file_is_refused_in_words(run, name):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(StoreError, match="should be a plain file, and is a pipe"):
        RunKeeper.go_on(build(), run)
