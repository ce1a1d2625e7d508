"""A run knows its own keys: another run's are refused before anything is written, an old copy is mended."""

import os
import shutil
import stat

import pytest
from kept_runs import build
from store_crashes import at_every_point

from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring
from unknot.store.folder import discard, is_kept
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.store.look import look
from unknot.store.naming import named_in
from unknot.store.own_keys import check_whole, keyring_of


def kept(folder, keys=None, rounds=2, requests=()):
    fed = build()
    keeper = RunKeeper.create(fed, folder, keys=keys)
    fed.run(rounds, requests=requests)
    keeper.close()


def half_begun(folder, keys=None):
    """A run that was broken off before its first checkpoint."""
    RunKeeper.create(build(), folder, keys=keys).close()
    assert not is_kept(folder)


def content(folder):
    """The bytes of all that is kept there, but for the lock, which says who held it last."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in ("lock", ".lock-keys")
        and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.fixture
def two(tmp_path):
    """Two runs whose keys lie apart from them."""
    for name in ("a", "b"):
        kept(tmp_path / name, tmp_path / f"keys-{name}")
    return tmp_path


@pytest.mark.parametrize("copied", [False, True])
def test_the_keys_of_another_run_are_refused_by_all_that_opens_them(two, copied):
    place, keys = two / "a", two / "keys-b"
    if copied:
        shutil.copy(keys, place / "keys")
        keys = None
    before = content(two)
    for work in (
        lambda: RunKeeper.go_on(build(), place, keys=keys),
        lambda: check_whole(place, keys),
        lambda: look(place, keys),
        lambda: named_in(place, keys),
        lambda: keyring_of(place, keys),
    ):
        with pytest.raises(StoreError, match="keys of another run") as refused:
            work()
        assert str(keys or place / "keys") in str(refused.value)
        marks = [Keyring(two / f"keys-{name}").mark.hex() for name in ("a", "b")]
        assert all(mark in str(refused.value) for mark in marks)
    with pytest.raises(StoreError, match="keys are for one run"):
        discard(place, keys)
    assert content(two) == before


def test_the_right_keys_are_taken_wherever_they_lie(two):
    shutil.move(two / "keys-a", two / "a" / "keys")
    RunKeeper.go_on(build(), two / "a").close()
    shutil.move(two / "a" / "keys", two / "elsewhere")
    RunKeeper.go_on(build(), two / "a", keys=two / "elsewhere").close()
    discard(two / "a", two / "elsewhere")
    assert not (two / "elsewhere").exists()
    assert (two / "keys-b").exists()


def test_an_old_copy_of_the_keys_does_not_bring_an_erased_clients_key_back(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    shutil.copy(tmp_path / "run" / "keys", tmp_path / "copy")
    key = Keyring(tmp_path / "copy")._keys[1]
    fed.run(3, requests=[erase(1, round=1)])
    keeper.close()
    assert key not in (tmp_path / "run" / "keys").read_bytes()
    shutil.copy(tmp_path / "copy", tmp_path / "run" / "keys")
    keeper = RunKeeper.go_on(build(), tmp_path / "run")
    (told,) = (text for text in keeper.said if "erased clients again (1)" in text)
    keeper.close()
    assert Keyring(tmp_path / "run" / "keys").destroyed(1)
    assert key not in b"".join(content(tmp_path / "run").values())
    keeper = RunKeeper.go_on(build(), tmp_path / "run")
    assert told not in keeper.said
    keeper.close()


@pytest.mark.parametrize("method", ["rfs", "federaser"])
def test_a_copy_of_the_keys_from_before_samples_were_erased_is_refused_and_a_later_one_is_not(
    tmp_path, method
):
    folder, fed = tmp_path / "run", build(method, "sync")
    keeper = RunKeeper.create(fed, folder)
    shutil.copy(folder / "keys", tmp_path / "before")
    fed.run(3, requests=[erase({3: [1, 2]}, round=1)])
    shutil.copy(folder / "keys", tmp_path / "after")
    fed.run(1, requests=[erase(1, round=3)])
    keeper.close()
    shutil.copy(tmp_path / "before", folder / "keys")
    for work in (lambda: RunKeeper.go_on(build(method, "sync"), folder), lambda: look(folder)):
        with pytest.raises(StoreError, match=r"before samples were erased \(of these: 3\)"):
            work()
    shutil.copy(tmp_path / "after", folder / "keys")
    for said in (1, 0):  # whoever was erased since is destroyed again, once
        keeper = RunKeeper.go_on(build(method, "sync"), folder)
        assert len([text for text in keeper.said if "erased clients again (1)" in text]) == said
        keeper.close()


@pytest.mark.parametrize("again", ["keys", None])
@pytest.mark.parametrize("first", ["keys", None])
def test_a_run_is_begun_again_where_it_was_broken_off_and_what_was_asked_stays(tmp_path, first, again):
    folder = tmp_path / "run"
    keys = [None if name is None else tmp_path / name for name in (first, again)]
    half_begun(folder, keys[0])
    with Database.open(folder / "run.db") as db:
        leave(db, erase(1), keyring_of(folder, keys[0]), "moved away")
    fed = build()
    keeper = RunKeeper.create(fed, folder, keys=keys[1])
    fed.run(2)
    assert [asked.state for asked in keeper.db.asked()] == ["served"]
    keeper.close()
    assert (folder / "keys").exists() == (again is None)
    RunKeeper.go_on(build(), folder, keys=keys[1]).close()
    assert 2 in named_in(folder, keys[1])


def test_killed_anywhere_while_it_is_begun_it_is_begun_again(tmp_path):
    def work(place):
        RunKeeper.create(build(), place / "run", keys=place / "apart" / "keys").close()

    def check(place, died):
        fed = build()
        keeper = RunKeeper.create(fed, place / "run", keys=place / "apart" / "keys")
        fed.run(1)
        keeper.close()
        RunKeeper.go_on(build(), place / "run", keys=place / "apart" / "keys").close()

    assert at_every_point(tmp_path, lambda place: None, work, check) > 10


@pytest.mark.parametrize("where", ["run/keys", "apart"])
def test_a_new_run_takes_no_keys_that_are_there_already(tmp_path, where):
    (tmp_path / "run").mkdir()
    Keyring(tmp_path / where).make([1])
    before = (tmp_path / where).read_bytes()
    told = "apart is there already, and keys are for one run"
    if where == "run/keys":
        told = r"run has other things in it \('keys'\)"
    with pytest.raises(StoreError, match=told):
        RunKeeper.create(build(), tmp_path / "run", keys=tmp_path / "apart")
    assert (tmp_path / where).read_bytes() == before
    assert os.listdir(tmp_path / "run") == (["keys"] if where == "run/keys" else [])


def test_a_damaged_run_is_taken_away_with_its_keys(tmp_path):
    kept(tmp_path / "run")
    (tmp_path / "run" / "keys").write_bytes(b"rubbish")
    discard(tmp_path / "run")
    kept(tmp_path / "run")
    (tmp_path / "run" / "run.db").write_bytes(b"rubbish")
    discard(tmp_path / "run")
    assert not {"keys", "run.db"} & set(os.listdir(tmp_path / "run"))


def test_missing_keys_are_named_and_no_run_is_gone_on_with_before_it_was_kept(tmp_path):
    kept(tmp_path / "run")
    (tmp_path / "run" / "keys").unlink()
    with pytest.raises(StoreError, match="keys is missing, and without its keys"):
        RunKeeper.go_on(build(), tmp_path / "run")
    half_begun(tmp_path / "half")
    with pytest.raises(StoreError, match="begin it again, in the same folder"):
        RunKeeper.go_on(build(), tmp_path / "half")


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_of_a_run_and_of_its_keys_are_their_owners_alone(tmp_path):
    folder, keys = tmp_path / "run", tmp_path / "new" / "folder" / "keys"
    folder.mkdir(mode=0o755)
    kept(folder, keys)
    assert [rights(path) for path in (folder, folder / "state", keys.parent, keys.parent.parent)] == [
        0o700
    ] * 4
    assert rights(keys) == 0o600


def test_a_folder_of_somebody_else_or_one_that_is_shared_is_refused_and_stays_as_it_is(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(StoreError, match="is shared"):
        RunKeeper.create(build(), folder)
    assert rights(folder) == 0o1777
    folder.chmod(0o755)
    with monkeypatch.context() as other:
        other.setattr("unknot.store.files.os.geteuid", lambda: 12345)
        with pytest.raises(StoreError, match="belongs to user"):
            RunKeeper.create(build(), folder)
    assert (rights(folder), os.listdir(folder)) == (0o755, [])
