"""A damaged, cut or missing file of a run is found and named; what can be computed again is, to the bit."""

import errno
import os
import shutil
import sqlite3
from itertools import count
from pathlib import Path

import pytest
from kept_runs import REQUESTS, ROUNDS, build, dies, fast_folder, go, is_kept_by, remove_tree, story

from unknot.core.errors import StoreError
from unknot.store import Database, files
from unknot.store.checkpoint import Checkpoint
from unknot.store.entries import read_named
from unknot.store.keeper import RunKeeper

CASE = ("federaser", "sync")


def packs_of_newest(run: Path) -> tuple[list[Path], list[Path]]:
    """The packs that the newest checkpoint alone has something in, and the others."""
    with Database.open(run / "run.db") as db:
        *_, before, last = (read_named(entry.body) for entry in db.entries(kind="checkpoint"))
    old = Checkpoint.read(run, before.state).tensors.keys()
    new = Checkpoint.read(run, last.state).tensors.keys() - old
    every = sorted((run / "weights").iterdir())
    mine = [pack for pack in every if any(digest.encode() in pack.read_bytes() for digest in new)]
    return [p for p in mine if not any(d.encode() in p.read_bytes() for d in old)], [
        pack for pack in every if pack not in mine
    ]


@pytest.fixture(scope="module")
def broken_off():
    """A run that was killed after an erasure, with two checkpoints since; and how it would have ended."""
    base = fast_folder()
    expected = go(build(*CASE), base / "whole")
    for moment in count(100, 5):
        shutil.rmtree(base / "run", ignore_errors=True)
        assert dies(moment, lambda: go(build(*CASE), base / "run"))
        shutil.copytree(base / "run", base / "look")
        with Database.open(base / "look" / "run.db") as db:
            erased = db.last("erased")
            after = [] if erased is None else list(db.entries(erased.number, kind="checkpoint"))
        found = len(after) >= 2 and all(packs_of_newest(base / "look"))
        shutil.rmtree(base / "look")
        if found:
            break
    yield base / "run", expected
    remove_tree(base)


def copied(run: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place)
    return place


def contents(folder: Path) -> dict[str, bytes]:
    """Every byte that counts: not the locks, what SQLite keeps for those who have it open, half a file."""
    apart = ("lock", ".lock-keys", "run.db-shm", "run.db", "run.db-wal")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in apart and not path.name.startswith(".part-")
    }


def tries(folder: Path, expected) -> str:
    """Go on: it ends as it would have, or says what is wrong, and has changed nothing."""
    before = contents(folder)
    said = ""
    try:
        assert go(build(*CASE), folder) == expected
    except StoreError as error:
        said = str(error)
    if said:
        assert str(folder) in said
        assert contents(folder) == before
    return said


def damages(content: bytes, parts: tuple[float, ...]):
    for part in parts:
        place = min(int(part * len(content)), len(content) - 1)
        yield content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]
    yield content[: len(content) // 2]
    yield b""
    yield None


@pytest.mark.parametrize(
    "parts", [(0.1, 0.9), pytest.param((0, 0.1, 0.5, 0.9, 0.999), marks=pytest.mark.slow)]
)
def test_whatever_is_done_to_a_file_it_is_found_or_does_no_harm(broken_off, tmp_path, parts):
    run, expected = broken_off
    named = 0
    for path in sorted(path for path in run.rglob("*") if path.is_file() and path.name != "run.db-shm"):
        for changed in damages(path.read_bytes(), parts) if path.stat().st_size else ():
            folder = copied(run, tmp_path / "run")
            (folder / path.relative_to(run)).unlink()
            if changed is not None:
                (folder / path.relative_to(run)).write_bytes(changed)
            named += bool(tries(folder, expected))
    assert named > 15


def test_checkpoints_that_are_missing_are_said_to_be_once_by_short_names(tmp_path):
    folder = tmp_path / "run"
    go(build(), folder, requests=())
    with Database.open(folder / "run.db") as db:
        last = [read_named(entry.body).state for entry in db.entries(kind="checkpoint")][:-3:-1]
    assert sorted(path.stem for path in (folder / "state").iterdir()) == sorted(last)
    for path in (folder / "state").iterdir():
        path.unlink()
    with pytest.raises(StoreError) as told:
        go(build(), folder, requests=())
    names = " and ".join(f"{state[:8]}….state" for state in last)
    assert f"can be read: {names} are not in {folder / 'state'}: take state/ from a backup" in str(told.value)
    assert last[0] not in str(told.value)


def test_no_flipped_byte_of_a_checkpoint_is_taken_for_it(broken_off, tmp_path):
    folder = copied(broken_off[0], tmp_path / "run")
    file = next((folder / "state").glob("[!.]*.state"))
    content = file.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 300)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(StoreError, match=file.name):
            Checkpoint.read(folder, file.stem)


@pytest.mark.parametrize("how", ["state", "state gone", "head of a pack", "pack", "pack gone"])
def test_from_a_damaged_newest_checkpoint_it_goes_back_to_the_one_before(broken_off, tmp_path, how):
    run, expected = broken_off
    folder = copied(run, tmp_path / "run")
    with Database.open(folder / "run.db") as db:
        last = read_named(db.last("checkpoint").body)
    file = folder / "state" / f"{last.state}.state"
    if "pack" in how:
        file = packs_of_newest(folder)[0][0]
    content = bytearray(file.read_bytes())
    content[20 if "head" in how else -1] ^= 1
    if "gone" in how:
        file.unlink()
    else:
        file.write_bytes(content)
    fed = build(*CASE)
    keeper = RunKeeper.go_on(fed, folder, every=0.0)
    assert file.name.split(".")[0][:20] in " ".join(keeper.said) or "gone" in how
    assert keeper.said
    keeper.close()
    del fed
    assert go(build(*CASE), folder) == expected
    assert go(build(*CASE), folder) == expected
    # What was damaged is not taken for whole any more.
    fed = build(*CASE)
    keeper = RunKeeper.go_on(fed, folder)
    assert not keeper.said
    keeper.close()


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_at_any_write_is_told_and_the_run_goes_on_from_it(stride):
    """A full disk: in the same process once there is room again, or in another one."""
    base = fast_folder()
    try:
        expected = go(build(*CASE), base / "whole")
        for moment in count(1, stride):
            left = count(1)

            def full(name):
                if next(left) == moment:  # noqa: B023
                    if name.startswith("db:"):
                        error = sqlite3.OperationalError("database or disk is full")
                        error.sqlite_errorcode = sqlite3.SQLITE_FULL
                        raise error
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            folder = base / str(moment)
            fed = build(*CASE)
            files.hook = full
            try:
                RunKeeper.create(fed, folder, every=0.0)
                fed.run(ROUNDS, requests=REQUESTS)
            except (StoreError, sqlite3.OperationalError, OSError) as error:
                told = str(error)
            else:
                break
            finally:
                files.hook = None
            assert "room" in told or "full" in told or "space" in told
            if is_kept_by(fed) and fed.stint is not None and moment % 2:
                assert story(fed.resume()) == expected
                with Database.open(folder / "run.db") as db:
                    assert db.last("erased").number > db.last("scrubbing").number
            fed.close()
            assert go(build(*CASE), folder) == expected
            shutil.rmtree(folder)
        assert moment > 100
    finally:
        files.hook = None
        remove_tree(base)


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_done(broken_off, tmp_path, monkeypatch):
    run, _ = broken_off
    folder = copied(run, tmp_path / "run")
    before = contents(folder)
    opened = os.open

    def readonly(path, flags, *more, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", readonly)
    with pytest.raises(StoreError, match="read-only: mount it"):
        RunKeeper.go_on(build(*CASE), folder)
    assert contents(folder) == before
