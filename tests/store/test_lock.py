"""One process a run; a lock goes with the process that holds it."""

import os
import signal
import time

import pytest

from unknot.core.errors import StoreError
from unknot.store import Holder, Lock, holder

pytestmark = pytest.mark.usefixtures("in_time")


def test_a_second_one_is_refused_by_name_and_the_lock_is_free_afterwards(tmp_path):
    assert holder(tmp_path) is None
    with Lock(tmp_path):
        held = holder(tmp_path)
        assert held is not None
        assert held.pid == os.getpid()
        with pytest.raises(
            StoreError, match=f"process {os.getpid()} on .* since .*; stop it with unknot stop"
        ):
            Lock(tmp_path).__enter__()
        assert holder(tmp_path) == held
    assert holder(tmp_path) is None
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    with Lock(tmp_path):
        pass


def forked(work):
    """A process that says when it has done its `work`, and waits to be killed."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            kept = work()
            os.write(write, b"x")
            time.sleep(60)
            del kept
        finally:
            os._exit(1)
    os.close(write)
    assert os.read(read, 1) == b"x"
    os.close(read)
    return child


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_another_process_holds_it_until_it_is_killed(tmp_path):
    child = forked(lambda: Lock(tmp_path).__enter__())
    try:
        with pytest.raises(StoreError, match=f"process {child} "):
            Lock(tmp_path).__enter__()
    finally:
        end(child)
    with Lock(tmp_path):
        assert holder(tmp_path).pid == os.getpid()


def test_a_child_does_not_hold_its_parents_lock(tmp_path):
    with Lock(tmp_path):
        child = forked(lambda: None)
        assert holder(tmp_path) is not None
    try:
        assert holder(tmp_path) is None
    finally:
        end(child)


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"pid": "x"}', b"[" * 4096, b'{"pid":1,"host":2,"since":3}']
)
def test_whatever_stands_in_it_the_refusal_is_clear(tmp_path, content):
    with Lock(tmp_path):
        (tmp_path / "lock").write_bytes(content)
        assert holder(tmp_path) == Holder(0, "unknown", "unknown")
        with pytest.raises(StoreError, match="is being run by process 0 on unknown"):
            Lock(tmp_path).__enter__()


@pytest.mark.parametrize(
    "theirs",
    [b"my work\n", b"{}", b"[" * 100_000, bytes(4096) + b"work", b'{"pid": 0, "host": "", "since": ""}'],
)
def test_a_file_that_no_lock_left_is_not_written_over(tmp_path, theirs):
    (tmp_path / "lock").write_bytes(theirs)
    with pytest.raises(StoreError, match=r"lock is not what a lock leaves.*remove it if it is nobody's"):
        Lock(tmp_path).__enter__()
    assert (tmp_path / "lock").read_bytes() == theirs


def test_what_it_says_does_not_steer_a_terminal(tmp_path):
    with Lock(tmp_path):
        (tmp_path / "lock").write_text('{"pid": 1, "host": "\\u001b[2J", "since": "x"}')
        assert holder(tmp_path).host == "?[2J"


def test_links_and_folders_that_are_missing_are_refused(tmp_path):
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "lock").symlink_to(tmp_path / "theirs")
    for look in (holder, lambda folder: Lock(folder).__enter__()):
        with pytest.raises(StoreError, match="symbolic link"):
            look(tmp_path)
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    with pytest.raises(StoreError, match="No such file"):
        Lock(tmp_path / "none").__enter__()
