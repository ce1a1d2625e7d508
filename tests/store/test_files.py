"""Files are whole or not there, stay in their folder, and are gone when they are removed."""

import errno
import os
import time
from types import SimpleNamespace

import pytest
from store_crashes import at_every_point

from unknot.core.errors import StoreError
from unknot.store.files import (
    begin,
    inside,
    is_part,
    make_folder,
    part_name,
    put_in_place,
    read_whole,
    remove,
    sweep,
    write_whole,
)

NAME = "a" * 64 + ".state"


def test_a_file_is_written_and_read_and_its_owners_alone(tmp_path):
    path = tmp_path / NAME
    write_whole(path, b"one", b"", memoryview(b"two"))
    assert read_whole(path, 100) == b"onetwo"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == [NAME]


def test_a_folder_is_its_owners_alone_and_made_once(tmp_path):
    make_folder(tmp_path / "run")
    make_folder(tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    with pytest.raises(
        StoreError, match="No such file or directory; nothing can be made there: name another"
    ):
        make_folder(tmp_path / "no" / "run")


def test_bytes_are_synced_before_the_name_and_the_folder_after_it(tmp_path, monkeypatch):
    done = []
    sync, rename = os.fsync, os.rename

    def synced(descriptor):
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", lambda *a, **k: (done.append("rename"), rename(*a, **k)))
    write_whole(tmp_path / NAME, b"x")
    assert done == ["file", "rename", "folder"]


def test_a_crash_leaves_the_old_file_or_the_new_one(tmp_path):
    found = set()

    def check(place, died):
        found.add(content := read_whole(place / NAME, 100))
        sweep(place, {NAME})
        assert os.listdir(place) == [NAME]
        assert content == b"new!" or died

    points = at_every_point(
        tmp_path,
        lambda place: write_whole(place / NAME, b"old"),
        lambda place: write_whole(place / NAME, b"new!"),
        check,
    )
    assert points == 5
    assert found == {b"old", b"new!"}


@pytest.mark.parametrize("where", ["fsync", "rename"])
@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSPC, "make room"), (errno.EROFS, "mount it for writing")]
)
def test_a_full_or_read_only_disk_is_named_and_the_old_file_is_as_it_was(
    tmp_path, monkeypatch, where, code, said
):
    path = tmp_path / NAME
    write_whole(path, b"old")

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as broken:
        broken.setattr(os, where, fail)
        with pytest.raises(StoreError, match=said) as error:
            write_whole(path, b"new")
    assert str(path) in str(error.value)
    assert read_whole(path, 100) == b"old"


def test_what_is_removed_is_zeros_first(tmp_path):
    path = tmp_path / NAME
    write_whole(path, b"secret" * 300_000)
    with path.open("rb") as still:
        remove(path)
        assert set(still.read()) == {0}
    assert not path.exists()
    with pytest.raises(StoreError, match="take it from a backup"):
        remove(path)


@pytest.mark.parametrize("name", ["run.db", "record.json", "keys", "a-picture.of.mine.png"])
def test_what_writes_by_name_gets_a_new_file_beside_the_place(tmp_path, name):
    path = tmp_path / name
    part = begin(path, 0o640)
    assert part != begin(path)
    assert part.suffix == path.suffix
    assert part.stat().st_mode & 0o777 == 0o640
    for end in ("", "-journal", "-wal", "-shm"):
        assert is_part(part.name + end, name)
        assert not is_part(f"{part.name}{end}x", name)
        assert not is_part(part.name + end, name[1:])
    part.write_text("whole")
    put_in_place(part, path)
    assert path.read_text() == "whole"
    assert not is_part(name, name)


HUGE = 1 << 40


def test_what_is_removed_is_overwritten_where_it_has_bytes_and_not_in_its_holes(tmp_path):
    path = tmp_path / NAME
    places = (0, 5 << 20, 1 << 38, HUGE - 6)
    with path.open("wb") as made:
        for place in places:
            made.seek(place)
            made.write(b"secret")
    began = time.monotonic()
    with path.open("rb") as still:
        remove(path)
        found = os.fstat(still.fileno())
        for place in places:
            still.seek(place)
            assert still.read(6) == bytes(6)
    assert time.monotonic() - began < 5
    assert found.st_size == HUGE
    assert found.st_blocks * 512 < 1 << 24
    assert os.listdir(tmp_path) == []


def test_where_holes_are_not_told_a_size_that_no_disk_has_is_not_overwritten(tmp_path, monkeypatch):
    """The file goes all the same."""
    path = tmp_path / NAME
    with path.open("wb") as made:
        made.truncate(HUGE)
    monkeypatch.delattr(os, "SEEK_DATA")
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_blocks=1 << 20, f_frsize=4096))
    monkeypatch.setattr(os, "pwrite", lambda *_: pytest.fail("it was overwritten"))
    remove(path)
    assert os.listdir(tmp_path) == []


def test_a_removal_that_is_killed_can_be_done_again(tmp_path):
    def check(place, died):
        if NAME in os.listdir(place):
            assert read_whole(place / NAME, 100) == b"secret"  # and not half of it zeros
        sweep(place, set())
        assert os.listdir(place) == []

    points = at_every_point(
        tmp_path,
        lambda place: write_whole(place / NAME, b"secret"),
        lambda place: remove(place / NAME),
        check,
    )
    assert points == 5


def test_a_sweep_takes_all_of_ours_that_is_not_named_and_nothing_of_others(tmp_path):
    half, old, folder = part_name(NAME), "b" * 64 + ".safetensors", "c" * 64 + ".state"
    others = [".part-x", f"{half}-more", "stray", "a" * 64, f"my-{NAME}", folder]
    for name in (NAME, half, old, *others[:-1]):
        (tmp_path / name).write_bytes(b"work")
    (tmp_path / folder).mkdir()
    assert sweep(tmp_path, {NAME}) == {half: 4, old: 4}
    assert sorted(os.listdir(tmp_path)) == sorted([NAME, *others])


def test_what_lies_outside_is_never_overwritten(tmp_path):
    """A link of either kind is taken away, and what it leads to stays."""
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.write_bytes(b"somebody's")
    folder.mkdir()
    (folder / NAME).symlink_to(outside)
    (folder / part_name(NAME)).hardlink_to(outside)
    sweep(folder, set())
    assert os.listdir(folder) == []
    assert outside.read_bytes() == b"somebody's"


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a" * 64, NAME + "\n", "", "x/" + NAME, NAME.upper(), 7, None]
)
def test_only_a_digests_name_leads_into_the_folder(tmp_path, name):
    with pytest.raises(StoreError, match="not the name of a file of ours"):
        inside(tmp_path, name)
    assert inside(tmp_path, NAME) == tmp_path / NAME


def test_symbolic_links_are_refused(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    write_whole(real / NAME, b"x")
    (tmp_path / "run").symlink_to(real)
    (tmp_path / NAME).symlink_to(real / NAME)
    for path in (tmp_path / "run" / NAME, tmp_path / NAME):
        with pytest.raises(StoreError, match="symbolic link"):
            inside(path.parent, NAME)
        with pytest.raises(StoreError, match="symbolic link"):
            read_whole(path, 100)
    with pytest.raises(StoreError, match="symbolic link"):
        write_whole(tmp_path / "run" / NAME, b"y")
    write_whole(tmp_path / NAME, b"y")  # takes the place of the link
    assert (real / NAME).read_bytes() == b"x"


def test_only_plain_files_of_a_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(StoreError, match=f"should be a plain file, and is a {name}: "):
            read_whole(tmp_path / name, 100)
    write_whole(tmp_path / NAME, b"x" * 101)
    with pytest.raises(StoreError, match="may have 100"):
        read_whole(tmp_path / NAME, 100)
    with pytest.raises(StoreError, match="No such file"):
        read_whole(tmp_path / "none", 100)
