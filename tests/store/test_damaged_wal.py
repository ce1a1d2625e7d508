"""A damaged write-ahead log: no acknowledged request is lost; a log that lost its end is found."""

import shutil

import pytest

from support import ToyEngine, small_data, toy_federation
from unknot.core.errors import StoreError
from unknot.core.requests import erase
from unknot.store import Database, Keyring
from unknot.store.inbox import leave
from unknot.store.keeper import RunKeeper
from unknot.unlearn import RFS


def build():
    return toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())


def flip(path, place):
    content = bytearray(path.read_bytes())
    if content:
        content[place % len(content)] ^= 0x10
        path.write_bytes(content)


def asked_in(folder):
    with Database.open(folder / "run.db") as db:
        return [one.kind for one in db.asked()]


@pytest.mark.parametrize("place", [0, 20, 40, 100, 5000, -1])
def test_no_flipped_byte_in_the_write_ahead_log_loses_a_request(tmp_path, place):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    fed.begin(50)
    for _ in range(3):
        fed.step()
    with Database.open(tmp_path / "run" / "run.db") as db:
        leave(db, erase(1), Keyring(tmp_path / "run" / "keys"))
        copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")  # as if all were gone at this moment
    keeper.close()
    flip(copy / "run.db-wal", place)
    assert asked_in(copy) == ["erase"]
    again = build()
    keeper = RunKeeper.go_on(again, copy)
    assert [served.request for served in again.resume().served] == ["erase client 1"]
    keeper.close()


def test_a_request_is_acknowledged_while_somebody_reads(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    with Database.open(tmp_path / "run" / "run.db", readonly=True) as reader:
        reader._connection.execute("BEGIN")
        reader._connection.execute("SELECT * FROM log").fetchone()
        with Database.open(tmp_path / "run" / "run.db") as db:
            assert leave(db, erase(1), keeper.keyring) == 1
    assert [one.kind for one in keeper.db.asked()] == ["erase"]
    keeper.close()


def test_a_checkpoint_leaves_nothing_to_the_write_ahead_log(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.begin(50)
    for _ in range(5):
        fed.step()
        assert (tmp_path / "run" / "run.db-wal").stat().st_size == 0
    keeper.close()


def older(folder, *, word, steps):
    """A run whose database is as it was before its last steps: what a log that lost its end looks like."""
    fed = build()
    keeper = RunKeeper.create(fed, folder, every=0.0)
    fed.begin(6)
    for _ in range(3):
        fed.step()
    before = (folder / "run.db").read_bytes()
    if word:
        with Database.open(folder / "run.db") as db:
            db.ask("go", b"", "tester")
    for _ in range(steps):
        fed.step()
    keeper.close()
    (folder / "run.db").write_bytes(before)


def test_a_log_that_lost_its_end_is_said_noted_and_gone_on_with_to_the_bit(tmp_path):
    whole = build().run(6)
    older(tmp_path / "run", word=True, steps=1)
    fed = build()
    keeper = RunKeeper.go_on(fed, tmp_path / "run")
    (said,) = keeper.said
    assert "the log has lost its end" in said
    assert "must be asked again" in said
    last = keeper.db.last("resumed")
    assert last is not None
    assert b"lost its end" in last.body
    assert fed.resume().model.digest() == whole.model.digest()
    keeper.close()
    keeper = RunKeeper.go_on(build(), tmp_path / "run")
    assert keeper.said == []
    keeper.close()


def test_a_checkpoint_that_a_crash_kept_out_of_the_log_is_no_lost_end(tmp_path):
    older(tmp_path / "run", word=False, steps=1)
    keeper = RunKeeper.go_on(build(), tmp_path / "run")
    assert keeper.said == []
    keeper.close()


def test_where_too_much_of_the_log_is_lost_to_go_on_it_is_said_why(tmp_path):
    older(tmp_path / "run", word=False, steps=3)
    with pytest.raises(StoreError, match="lost its end"):
        RunKeeper.go_on(build(), tmp_path / "run")
