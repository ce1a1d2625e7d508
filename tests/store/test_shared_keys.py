"""One file of keys is one run's at a time, and what a writing finds there of somebody else's stays."""

import logging
import os
import shutil
import threading

import pytest
from kept_runs import build
from store_crashes import killed

from unknot.core.errors import StoreError
from unknot.store import Keyring, files
from unknot.store.folder import discard
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import KeyLock
from unknot.store.lock import is_lock
from unknot.store.noted import KEYS


@pytest.fixture
def hook():
    """Sets what is called at each point of a writing."""

    def place(work):
        files.hook = work

    yield place
    files.hook = None


def test_two_copies_of_a_run_cannot_have_one_file_of_keys_at_a_time(tmp_path):
    fed, keys = build(), tmp_path / "keys"
    keeper = RunKeeper.create(fed, tmp_path / "a", keys=keys)
    fed.run(1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(StoreError, match=f"keys are held by the run of process {os.getpid()}"):
        RunKeeper.go_on(build(), tmp_path / "b", keys=keys)
    keeper.close()
    RunKeeper.go_on(build(), tmp_path / "b", keys=keys).close()


def test_a_run_is_not_taken_away_with_keys_that_a_copy_of_it_holds(tmp_path):
    fed, keys = build(), tmp_path / "keys"
    keeper = RunKeeper.create(fed, tmp_path / "a", keys=keys)
    fed.run(1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(StoreError, match="keys are for one run at a time"):
        discard(tmp_path / "b", keys)
    assert keys.exists()
    keeper.close()
    discard(tmp_path / "b", keys)
    assert not keys.exists()


def test_another_process_is_refused_the_keys_too_and_has_them_once_the_first_is_gone(tmp_path):
    with KeyLock(tmp_path / "keys"):

        def try_it():
            with (
                pytest.raises(StoreError, match="keys are for one run at a time"),
                KeyLock(tmp_path / "keys"),
            ):
                pass

        killed(0, try_it)
    with KeyLock(tmp_path / "keys"):
        pass


def test_what_somebody_else_wrote_in_between_is_not_undone(tmp_path):
    first = Keyring(tmp_path / "keys")
    first.make([1, 2, 3])
    second = Keyring(tmp_path / "keys")
    first.destroy([1])
    before = (tmp_path / "keys").read_bytes()
    for work in (
        lambda: second.destroy([2]),
        lambda: second.make([9]),
        lambda: second.renew([3]),
        lambda: second.drop_old([3]),
    ):
        with pytest.raises(StoreError, match="written by somebody else"):
            work()
    assert (tmp_path / "keys").read_bytes() == before
    (tmp_path / "keys").unlink()
    with pytest.raises(StoreError, match="not there any more"):
        first.destroy([2])
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("where", ["write_whole:part", "write_whole:renamed", "keyring:replaced"])
def test_who_was_interrupted_in_a_writing_goes_on_with_what_the_file_says(tmp_path, hook, where):
    ring = Keyring(tmp_path / "keys")
    ring.make([1, 2])
    old = ring.seal(2, b"x", b"")

    def interrupt(name):
        if name == where:
            files.hook = None
            raise KeyboardInterrupt

    for work in (lambda: ring.destroy([1]), lambda: ring.renew([2]), lambda: ring.drop_old([2])):
        hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            work()
        work()
    for found in (ring, Keyring(tmp_path / "keys")):
        assert (found.destroyed(1), found.holds(2)) == (True, True)
        with pytest.raises(StoreError, match="sealed under another key"):
            found.open(2, old, b"")
    assert os.listdir(tmp_path) == ["keys"]


def test_keys_whose_name_begins_as_anothers_are_left_alone(tmp_path, hook):
    """While the second is between its writing and its renaming, the first sweeps."""
    first, second = Keyring(tmp_path / "run"), Keyring(tmp_path / "run-2")
    first.make([1, 2])
    second.make([1, 2, 3])

    def sweep(name):
        if name == "write_whole:part":
            files.hook = None
            first.destroy([1])

    hook(sweep)
    second.destroy([3])
    assert Keyring(tmp_path / "run-2").destroyed(3)
    assert sorted(os.listdir(tmp_path)) == ["run", "run-2"]


def test_a_run_sweeps_in_its_folder_what_it_could_have_left_there_alone(tmp_path):
    folder, fed = tmp_path / "run", build()
    keeper = RunKeeper.create(fed, folder)
    fed.run(1)
    keeper.close()
    mark = "0123456789abcdef"
    theirs = [
        f".part-run.db-x-{mark}",
        f".part-other-{mark}",
        ".part-record.json-short",
        f".part-keys-2-{mark}",
    ]
    ours = [f".part-run.db-{mark}", f".part-run.db-{mark}-wal", f".part-record.json-{mark}"]
    for name in (*theirs, *ours):
        (folder / name).write_bytes(b"x")
    RunKeeper.go_on(build(), folder).close()
    assert sorted(name for name in os.listdir(folder) if name.startswith(".part-")) == sorted(theirs)


def test_a_hard_linked_backup_of_the_keys_is_not_overwritten_and_that_is_said(tmp_path, caplog):
    ring = Keyring(tmp_path / "keys")
    ring.make([1, 2])
    ring.destroy([2])
    assert not ring.said
    os.link(tmp_path / "keys", tmp_path / "backup")
    before = (tmp_path / "backup").read_bytes()
    with caplog.at_level(logging.WARNING):
        ring.destroy([1])
    assert (tmp_path / "backup").read_bytes() == before
    assert len(ring.said) == len(caplog.records) == 1
    assert "keeps the keys that were destroyed" in ring.said[0]
    assert sorted(os.listdir(tmp_path)) == ["backup", "keys"]
    ring.destroy([3])
    assert len(ring.said) == 1


def test_a_kill_beside_a_hard_linked_backup_leaves_it_whole_and_one_without_says_nothing(tmp_path):
    for linked in (True, False):
        for moment in range(1, 14):
            place = tmp_path / f"{linked}{moment}"
            place.mkdir()
            Keyring(place / "keys").make([1, 2])
            if linked:
                os.link(place / "keys", place / "backup")
            before = (place / "keys").read_bytes()
            died = killed(moment, lambda: Keyring(place / "keys").destroy([1]))  # noqa: B023
            ring = Keyring(place / "keys")
            ring.destroy([1])
            assert sorted(os.listdir(place)) == (["backup", "keys"] if linked else ["keys"])
            assert linked or not ring.said
            if linked:
                assert (place / "backup").read_bytes() == before
        assert not died


def test_what_the_keys_say_is_said_by_the_run(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    os.link(tmp_path / "run" / "keys", tmp_path / "backup")
    keeper.keyring.destroy([1])
    assert "another name" in keeper.said[0]
    keeper.close()


@pytest.mark.parametrize("name", ["state/keys", "weights/keys", "record.json", "lock", "run.db", "mine", "."])
def test_keys_in_the_runs_own_folder_lie_where_they_belong_or_it_is_not_begun(tmp_path, name):
    with pytest.raises(StoreError, match="the run's own folder"):
        RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / "run" / name)
    assert not os.listdir(tmp_path)
    (tmp_path / "way").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="the run's own folder"):
        RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / "way" / "run" / name)
    assert os.listdir(tmp_path) == ["way"]


def test_keys_are_not_called_as_what_lies_beside_keys(tmp_path):
    for name in (".lock-keys", ".part-keys-0123456789abcdef"):
        with pytest.raises(StoreError, match="name another file"):
            RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / name)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("make", [lambda path: path.write_text("my work\n"), os.mkfifo])
def test_a_file_of_others_that_is_called_as_the_lock_of_keys_is_refused_before_anything_is_made(
    tmp_path, make
):
    theirs = tmp_path / "mine" / f".lock-{KEYS}"
    theirs.parent.mkdir()
    make(theirs)
    before = theirs.stat()
    with pytest.raises(StoreError, match=r"\.lock-keys (is not|should be)"):
        RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / "mine" / KEYS)
    assert os.listdir(tmp_path) == ["mine"]
    assert os.listdir(tmp_path / "mine") == [theirs.name]
    assert (theirs.stat().st_size, theirs.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("left", [b"", bytes(90)])
def test_a_lock_of_keys_that_a_crash_left_without_a_word_is_taken(tmp_path, left):
    (tmp_path / f".lock-{KEYS}").write_bytes(left)
    RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / KEYS).close()
    assert is_lock(tmp_path / f".lock-{KEYS}")


def test_the_keys_of_the_folder_may_be_named_and_moved_keys_in_it_are_refused(tmp_path):
    folder, fed = tmp_path / "run", build()
    keeper = RunKeeper.create(fed, folder, keys=folder / "keys")
    fed.run(1)
    keeper.close()
    shutil.move(folder / "keys", folder / "state" / "keys")
    with pytest.raises(StoreError, match="the run's own folder"):
        RunKeeper.go_on(build(), folder, keys=folder / "state" / "keys")
    assert (folder / "state" / "keys").exists()


def test_a_run_that_was_let_go_of_says_so(tmp_path):
    fed = build()
    RunKeeper.create(fed, tmp_path / "run").close()
    with pytest.raises(StoreError, match=r"was let go of \(close\).*unknot resume") as refused:
        fed.run(1)
    assert "damaged" not in str(refused.value)


def test_threads_of_one_process_cannot_both_have_the_keys(tmp_path):
    said = []

    def take():
        try:
            with KeyLock(tmp_path / "keys"):
                pass
        except StoreError as error:
            said.append(str(error))

    with KeyLock(tmp_path / "keys"):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    assert len(said) == 1
