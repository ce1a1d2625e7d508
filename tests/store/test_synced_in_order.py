"""The order in which names, bytes and zeros reach the disk: what a crash of the machine would find."""

import errno
import os

import pytest

from unknot.store import Keyring, files
from unknot.store.files import PART, make_folder, put_in_place, remove, write_whole

NAME = "a" * 64 + ".state"


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """What is done to files, in order; a folder is called by its name, a file "old" or "file"."""
    done, old = [], set()
    sync, pwrite = os.fsync, os.pwrite

    def called(descriptor):
        found = os.fstat(descriptor)
        if found.st_ino in old:
            return "old"
        there = {path.stat().st_ino: path.name for path in (tmp_path, *tmp_path.rglob("*")) if path.is_dir()}
        return there.get(found.st_ino, "file")

    def noted(what, doing):
        def act(*told, **more):
            done.append(what)
            return doing(*told, **more)

        return act

    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(f"sync {called(fd)}"), sync(fd))[1])
    monkeypatch.setattr(os, "pwrite", lambda fd, *a: (done.append(f"zero {called(fd)}"), pwrite(fd, *a))[1])
    for name in ("rename", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    return {"done": done, "old": old}


def test_a_file_that_another_program_wrote_is_synced_before_its_name_and_the_folder_after(tmp_path, trace):
    part = tmp_path / f"{PART}x"
    part.write_bytes(b"x")
    put_in_place(part, tmp_path / NAME)
    assert trace["done"] == ["sync file", "rename", f"sync {tmp_path.name}"]


def test_a_new_folder_is_a_name_on_the_disk(tmp_path, trace):
    make_folder(tmp_path / "run")
    assert trace["done"] == ["mkdir", f"sync {tmp_path.name}"]


def test_what_goes_has_another_name_first_then_zeros_then_none_each_on_the_disk(tmp_path, trace):
    (tmp_path / NAME).write_bytes(b"secret")
    remove(tmp_path / NAME)
    folder = f"sync {tmp_path.name}"
    assert trace["done"] == ["rename", folder, "zero file", "sync file", "unlink", folder]


def test_what_a_crash_left_is_zeros_and_then_gone_likewise(tmp_path, trace):
    (tmp_path / f"{PART}x").write_bytes(b"secret")
    remove(tmp_path / f"{PART}x")
    assert trace["done"] == ["zero file", "sync file", "unlink", f"sync {tmp_path.name}"]


def three_keys(folder, trace):
    """Keys in a folder of their own, of which the file is "old" from now on."""
    make_folder(folder)
    ring = Keyring(folder / "keys")
    ring.make(range(3))
    trace["old"].add((folder / "keys").stat().st_ino)
    trace["done"].clear()
    return ring


def test_old_keys_are_zeros_on_the_disk_before_their_last_name_goes(tmp_path, trace):
    three_keys(tmp_path / "apart", trace).destroy([1])
    done = trace["done"]
    assert done[:5] == ["sync file", "rename", "sync apart", "zero old", "sync old"]
    assert done[-2:] == ["unlink", "sync apart"]
    assert done.count("unlink") == 1


def test_where_a_file_has_one_name_old_keys_are_zeros_on_the_disk_all_the_same(tmp_path, trace, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    ring = three_keys(tmp_path / "apart", trace)
    monkeypatch.setattr(os, "link", refused)
    ring.destroy([1])
    assert trace["done"] == ["sync file", "rename", "sync apart", "zero old", "sync old"]


def test_zeros_over_more_than_one_piece_are_synced_once_they_are_all_there(tmp_path, trace):
    path = tmp_path / NAME
    write_whole(path, bytes([7]) * (2 * 2**20 + 5))
    trace["done"].clear()
    descriptor = os.open(path, os.O_WRONLY)
    files.zero(descriptor)
    os.close(descriptor)
    assert trace["done"] == ["zero file"] * 3 + ["sync file"]
    assert not any(path.read_bytes())
