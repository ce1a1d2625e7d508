"""What is sealed under a client's key is read with it, and by nobody once it is destroyed."""

import os
import sys
import time

import pytest
from store_crashes import at_every_point

from unknot.core.errors import StoreError
from unknot.store import KeyGone, Keyring, files


def test_what_is_sealed_is_opened_also_after_a_restart(tmp_path):
    sealed = Keyring(tmp_path / "keys").seal(3, b"content", b"about")
    assert b"content" not in sealed
    again = Keyring(tmp_path / "keys")
    assert again.open(3, sealed, b"about") == b"content"
    assert again.holds(3)
    assert not again.holds(4)
    assert len(again._keys) == 1
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_the_same_content_is_sealed_differently_each_time(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    assert keyring.seal(1, b"x", b"") != keyring.seal(1, b"x", b"")


def test_changed_content_or_another_place_is_found(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    sealed = keyring.seal(1, b"content", b"about")
    for i in range(len(sealed)):
        with pytest.raises(StoreError, match="sealed for client 1"):
            keyring.open(1, sealed[:i] + bytes([sealed[i] ^ 1]) + sealed[i + 1 :], b"about")
        with pytest.raises(StoreError, match="sealed for client 1"):
            keyring.open(1, sealed[:i], b"about")
    keyring.make([2])
    for client, about in ((1, b"other"), (2, b"about")):
        with pytest.raises(StoreError, match="another key or for another place"):
            keyring.open(client, sealed, about)


def test_a_destroyed_key_is_gone_and_no_new_one_comes_by_itself(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    sealed = {client: keyring.seal(client, b"x", b"") for client in (1, 2)}
    keyring.destroy([1, 7])
    for ring in (keyring, Keyring(tmp_path / "keys")):
        for client in (1, 7):
            with pytest.raises(KeyGone, match=f"client {client} was destroyed"):
                ring.open(client, sealed[1], b"")
            with pytest.raises(KeyGone):
                ring.seal(client, b"x", b"")
        assert ring.open(2, sealed[2], b"") == b"x"
        assert ring.destroyed(1)
        assert len(ring._keys) == 1
    with pytest.raises(KeyGone, match="client 9 is not there"):
        keyring.open(9, sealed[1], b"")
    keyring.make([1])
    with pytest.raises(StoreError, match="another key"):
        keyring.open(1, sealed[1], b"")


def test_the_old_file_is_zeros_when_a_key_is_destroyed(tmp_path):
    keyring = Keyring(tmp_path / "keys")
    keyring.make([1, 2])
    with (tmp_path / "keys").open("rb") as old:
        keyring.destroy([1])
        assert set(old.read()) == {0}
    assert os.listdir(tmp_path) == ["keys"]


def test_keys_may_lie_elsewhere_and_nothing_else_there_is_touched(tmp_path):
    other = tmp_path / ".part-other-1"
    other.write_bytes(b"theirs")
    (tmp_path / "way").symlink_to(tmp_path)
    keyring = Keyring(tmp_path / "way" / "my.keys")
    keyring.make([1])
    keyring.destroy([1])
    assert sorted(os.listdir(tmp_path)) == [".part-other-1", "my.keys", "way"]
    assert other.read_bytes() == b"theirs"


def keys_in(folder, keys):
    """Which of these keys lie in any file of a folder."""
    content = b"".join((folder / name).read_bytes() for name in os.listdir(folder))
    return [key in content for key in keys]


def test_a_kill_leaves_the_old_keys_or_the_new_and_destroying_again_leaves_no_trace(tmp_path):
    drawn = {}

    def prepare(place):
        keyring = Keyring(place / "keys")
        keyring.make(range(50))
        drawn[place] = keyring._keys[3], keyring._keys[4]

    def check(place, died):
        keyring = Keyring(place / "keys")
        assert len(keyring._keys) in (49, 50)
        assert died or len(keyring._keys) == 49
        keyring.destroy([3])
        assert keys_in(place, drawn[place]) == [False, True]
        assert os.listdir(place) == ["keys"]

    points = at_every_point(tmp_path, prepare, lambda place: Keyring(place / "keys").destroy([3]), check)
    assert points == 12


def test_who_has_a_second_key_already_loses_both(tmp_path):
    """An erasure of samples was broken off, and the whole client is erased then."""
    ring = Keyring(tmp_path / "keys")
    ring.make(range(3))
    ring.renew([1, 2])
    keys = [ring._keys[1], ring._next[1], ring._keys[2], ring._next[2]]
    assert keys_in(tmp_path, keys) == [True] * 4
    ring.destroy([1])
    assert keys_in(tmp_path, keys) == [False, False, True, True]
    again = Keyring(tmp_path / "keys")
    assert again.destroyed(1)
    assert not again.holds(1)
    assert again.holds(2)


def test_a_failed_writing_leaves_all_as_it_was(tmp_path, monkeypatch):
    keyring = Keyring(tmp_path / "keys")
    keyring.make([1])

    def fail(*_):
        raise StoreError("no room")

    with monkeypatch.context() as broken:
        broken.setattr("unknot.store.keyring.write_whole", fail)
        with pytest.raises(StoreError, match="no room"):
            keyring.destroy([1])
    assert keyring.holds(1)
    assert Keyring(tmp_path / "keys").holds(1)
    assert os.listdir(tmp_path) == ["keys"]


def test_a_changed_file_of_keys_is_found_wherever_it_was_changed(tmp_path):
    path = tmp_path / "keys"
    keyring = Keyring(path)
    keyring.make([1, 2])
    keyring.destroy([2])
    content = path.read_bytes()
    for i in range(len(content)):
        for changed in (
            content[:i] + bytes([content[i] ^ 4]) + content[i + 1 :],
            content[:i],
            content[:i] + b"x" + content[i:],
        ):
            path.write_bytes(changed)
            with pytest.raises(StoreError, match=rf"{path} .*: take (them|the keys) from (their|a) backup"):
                Keyring(path)


def test_ten_thousand_keys_are_made_in_one_writing(tmp_path, monkeypatch):
    writes = []
    write = files.write_whole
    monkeypatch.setattr("unknot.store.keyring.write_whole", lambda *a: (writes.append(a), write(*a)))
    start = time.perf_counter()
    keyring = Keyring(tmp_path / "keys")
    keyring.make(range(10_000))
    assert len(writes) == 1
    assert len(Keyring(tmp_path / "keys")._keys) == 10_000
    assert time.perf_counter() - start < 5  # 0.05 s where nothing else runs


@pytest.mark.parametrize("client", [-1, 2**63])
def test_what_is_no_clients_number_is_refused(tmp_path, client):
    with pytest.raises(StoreError, match="no client's number"):
        Keyring(tmp_path / "keys").make([client])
    assert not (tmp_path / "keys").exists()


def test_a_renewed_key_opens_what_was_sealed_before_until_the_old_one_is_dropped(tmp_path):
    ring = Keyring(tmp_path / "keys")
    ring.make([1, 2])
    old = ring.seal(1, b"before", b"x")
    ring.renew([1, 9])
    new = Keyring(tmp_path / "keys").seal(1, b"after", b"x")
    again = Keyring(tmp_path / "keys")
    assert (again.open(1, old, b"x"), again.open(1, new, b"x")) == (b"before", b"after")
    again.renew([1])
    again.drop_old([1, 2])
    for found in (again, Keyring(tmp_path / "keys")):
        assert found.open(1, new, b"x") == b"after"
        with pytest.raises(StoreError, match="sealed for client 1"):
            found.open(1, old, b"x")
    assert not again.holds(9)


def test_killed_anywhere_while_a_key_is_renewed_one_key_or_both_are_there(tmp_path):
    def prepare(place):
        ring = Keyring(place / "keys")
        ring.make([1, 2])
        (place / "sealed").write_bytes(ring.seal(1, b"before", b"x"))

    def work(place):
        ring = Keyring(place / "keys")
        ring.renew([1])
        content = ring.open(1, (place / "sealed").read_bytes(), b"x")
        files.write_whole(place / "sealed", ring.seal(1, content, b"x"))
        ring.drop_old([1])

    def check(place, died):
        ring = Keyring(place / "keys")
        assert ring.open(1, (place / "sealed").read_bytes(), b"x") == b"before"
        work(place)
        assert Keyring(place / "keys").open(1, (place / "sealed").read_bytes(), b"x") == b"before"
        assert not [path for path in place.iterdir() if path.name.startswith(".part-keys")]

    assert at_every_point(tmp_path, prepare, work, check) > 20


def test_a_file_of_keys_has_a_mark_of_its_own_that_stays(tmp_path):
    ring = Keyring(tmp_path / "keys")
    ring.make([1, 2])
    mark = ring.mark
    ring.renew([1])
    ring.drop_old([1])
    ring.destroy([2])
    assert (len(mark), ring.mark, Keyring(tmp_path / "keys").mark) == (16, mark, mark)
    other = Keyring(tmp_path / "other")
    other.make([1])
    assert other.mark != mark


def test_keys_that_are_replaced_while_they_are_read_are_read_again(tmp_path, monkeypatch):
    """The old file is all zeros by then, or in part."""
    path, read, left = tmp_path / "keys", files.read_at, [1, 2, 3]
    writer = Keyring(path)
    writer.make(range(5))

    def late(descriptor, start, size, where):
        if left:
            writer.destroy([left.pop()])
        return read(descriptor, start, size, where)

    monkeypatch.setattr(files, "read_at", late)
    ring = Keyring(path)
    assert not left
    assert [ring.holds(client) for client in range(5)] == [True, False, False, False, True]


def test_without_cryptography_it_is_said_what_is_needed(tmp_path, monkeypatch):
    ring = Keyring(tmp_path / "keys")
    sealed = ring.seal(1, b"x", b"")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for work in (lambda: ring.seal(1, b"x", b""), lambda: ring.open(1, sealed, b"")):
        with pytest.raises(StoreError, match=r"pip install -e '\.\[store\]'"):
            work()
