"""File systems that are full or read-only: it is told, nothing is spoilt, and with room the run goes on."""

import os
import shutil
import subprocess
from contextlib import suppress

import pytest
from kept_runs import REQUESTS, ROUNDS, build, fast_folder, go, remove_tree

from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring
from unknot.store.folder import is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import look

CASE = ("federaser", "sync")
SIZE = 4 << 20
PAGE = 4096


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own, in memory, where the user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "unknot-test", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if made.returncode:
        pytest.skip(f"this user may not mount a file system: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk, left: int) -> None:
    """Leave so many bytes of a disk."""
    free = os.statvfs(disk).f_bavail * PAGE
    with open(disk / "ballast", "wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, max(free - left, PAGE))


def broken_off(folder) -> str:
    """Run until an error; what it says, or nothing where the run came to its end."""
    fed = build(*CASE)
    keeper = None
    try:
        keeper = (RunKeeper.go_on if is_kept(folder) else RunKeeper.create)(fed, folder, every=0.0)
        fed.resume() if fed.stint is not None else fed.run(ROUNDS, requests=REQUESTS)
    except StoreError as error:
        return str(error)
    finally:
        if keeper is not None:
            keeper.close()
    return ""


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_disk_that_fills_up_at_any_moment_is_told_and_with_room_it_ends_as_ever(disk, stride):
    base = fast_folder()
    expected = go(build(*CASE), base / "whole")
    remove_tree(base)
    told = 0
    for pages in range(1, 60, stride):
        folder = disk / "run"
        fill(disk, pages * PAGE)
        said = broken_off(folder)
        if not said:
            break
        told += 1
        assert "room" in said, said
        assert str(folder) in said, said
        (disk / "ballast").unlink()
        assert go(build(*CASE), folder) == expected, f"{pages} pages"
        shutil.rmtree(folder)
    assert not said
    assert told >= 30 // stride


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_when_an_erasure_comes_keeps_the_request(disk, stride):
    """Full from any point of the erasure on: it is served once there is room, and nothing of it was lost."""
    first = fast_folder()
    go(build(*CASE), first / "run")
    with Database.open(first / "run" / "run.db") as db:
        leave(db, erase(5), Keyring(first / "run" / "keys"), "asked")

    def serve(folder):
        fed = build(*CASE)
        keeper = RunKeeper.go_on(fed, folder, every=0.0)
        try:
            return (fed.run(1) if fed.over else fed.resume()).model.digest()
        finally:
            keeper.close()

    shutil.copytree(first / "run", first / "whole")
    expected, told = serve(first / "whole"), 0
    for pages in range(0, 120, stride):
        folder = disk / "run"
        shutil.copytree(first / "run", folder)
        fill(disk, pages * PAGE)
        with suppress(StoreError):
            assert serve(folder) == expected
        (disk / "ballast").unlink()
        if _waits(folder):
            told += 1
            assert serve(folder) == expected, f"{pages} pages"
        assert not _waits(folder)
        assert Keyring(folder / "keys").destroyed(5)
        shutil.rmtree(folder)
    remove_tree(first)
    assert told > 1


def _waits(folder) -> bool:
    with Database.open(folder / "run.db") as db:
        states = [one.state for one in db.asked()]
    assert states in (["waiting"], ["taken"], ["served"])
    return states != ["served"]


def test_on_a_read_only_disk_it_is_told_and_once_writable_it_goes_on(disk):
    base = fast_folder()
    expected = go(build(*CASE), base / "whole")
    remove_tree(base)
    fill(disk, 30 * PAGE)
    folder = disk / "run"
    assert broken_off(folder)
    (disk / "ballast").unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        with pytest.raises(StoreError, match="read-only: mount it"):
            RunKeeper.go_on(build(*CASE), folder)
        with suppress(StoreError):  # SQLite reads a log that nobody has open only where it may write
            assert look(folder).state == "stopped"
        assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert go(build(*CASE), folder) == expected
