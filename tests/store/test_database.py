"""The log is a chain, requests are served once and in order, and what was deleted is not in the file."""

import os
import sqlite3
import sys
import threading
from contextlib import suppress

import pytest
from store_crashes import at_every_point

from unknot.core.errors import StoreError
from unknot.store import Database, access


@pytest.fixture
def database(tmp_path):
    with Database.create(tmp_path / "run.db") as made:
        yield made


def changed(path, statement, *values):
    """Do something to the file that we never do."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_a_new_one_is_its_owners_alone_and_set_as_it_must_be(tmp_path, database):
    assert sorted(os.listdir(tmp_path))[0] == "run.db"
    database.append([("kind", b"")])
    for name in os.listdir(tmp_path):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
        "trusted_schema": 0,
    }
    for setting, value in {**wanted, "busy_timeout": 5000}.items():
        assert database._all(f"PRAGMA {setting}") == [(value,)]
    with pytest.raises(StoreError, match="there already"):
        Database.create(tmp_path / "run.db")


def test_entries_come_back_in_order_as_a_chain(database):
    assert database.head() == (0, bytes(32))
    assert database.append([("a", b"1"), ("b", b"2")]) == 2
    assert database.append([]) == 2
    assert database.append([("a", b"\x00\xff" * 5000)]) == 3
    found = list(database.entries())
    assert [(entry.number, entry.kind, entry.body) for entry in found] == [
        (1, "a", b"1"),
        (2, "b", b"2"),
        (3, "a", b"\x00\xff" * 5000),
    ]
    assert [entry.previous for entry in found] == [bytes(32), found[0].hash, found[1].hash]
    assert database.head() == (3, found[2].hash)
    assert list(database.entries(after=1, kind="a")) == found[2:]
    assert database.last("b") == found[1]
    assert database.last("c") is None
    assert found[0].at.endswith("+00:00")
    database.verify()


def test_many_entries_are_read_while_more_are_written_and_no_view_stays_open(tmp_path, database):
    database.append([("x", b"%d" % i) for i in range(1000)])
    with Database.open(tmp_path / "run.db", readonly=True) as reader:
        entries = reader.entries()
        next(entries)
        database.append([("x", b"1000")])
        assert database.truncate()
        assert [int(entry.body) for entry in entries] == list(range(1, 1001))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = 'text' WHERE number = 2",
        "UPDATE log SET body = x'00' WHERE number = 2",
        "UPDATE log SET kind = x'ff' WHERE number = 2",
        "UPDATE log SET at = '' WHERE number = 2",
        "UPDATE log SET previous = x'00' WHERE number = 2",
        "UPDATE log SET hash = zeroblob(32) WHERE number = 2",
        "UPDATE log SET number = 9 WHERE number = 2",
        "DELETE FROM log WHERE number = 2",
        "DELETE FROM log WHERE number = 1",
        "UPDATE log SET kind = CAST(x'ff' AS TEXT) WHERE number = 2",
    ],
)
def test_a_change_of_the_log_is_found(tmp_path, database, statement):
    database.append([("a", b"1"), ("a", b"2"), ("a", b"3")])
    database.verify()
    changed(tmp_path / "run.db", statement)
    with pytest.raises(StoreError, match=r"run\.db"):
        database.verify()


def test_a_log_with_forged_hashes_does_not_fit(tmp_path, database):
    from unknot.store.rows import entry_hash

    database.append([("a", b"1"), ("a", b"2")])
    first = next(database.entries())
    forged = entry_hash(bytes(32), 1, "a", first.at, b"forged")
    changed(tmp_path / "run.db", "UPDATE log SET body = ?, hash = ? WHERE number = 1", b"forged", forged)
    with pytest.raises(StoreError, match="entry 2 of the log does not fit entry 1"):
        database.verify()


def test_a_request_goes_from_waiting_over_taken_to_served(database):
    assert [database.ask("erase", b"%d" % i, "Graz") for i in range(3)] == [1, 2, 3]
    assert [asked.number for asked in database.waiting()] == [1, 2, 3]
    database.take(2, 10)
    database.take(2, 10)
    database.take(1, 12)
    assert [asked.number for asked in database.waiting()] == [3]
    assert [(asked.number, asked.step) for asked in database.asked()] == [(1, 12), (2, 10), (3, None)]
    database.done(2, b"out", "served")
    first = database.asked()[1]
    database.done(2, b"out", "served")
    assert database.asked()[1] == first
    assert (first.kind, first.body, first.by, first.step, first.state, first.outcome) == (
        "erase",
        b"1",
        "Graz",
        10,
        "served",
        b"out",
    )
    assert first.asked_at <= first.taken_at <= first.done_at
    database.done(1, b"no", "refused")
    assert [asked.state for asked in database.asked()] == ["refused", "served", "waiting"]


def test_what_cannot_be_is_refused(database):
    for impossible, said in [
        (lambda: database.ask("run", b"", ""), "cannot be asked for"),
        (lambda: database.take(1, 1), "no request 1"),
        (lambda: database.done(1, b"", "served"), "no request 1"),
        (lambda: database.done(1, b"", "eaten"), "not 'eaten'"),
        (lambda: database.take(2**70, 1), "too large"),
    ]:
        with pytest.raises(StoreError, match=said):
            impossible()
    number = database.ask("stop", b"", "")
    with pytest.raises(StoreError, match="not taken yet"):
        database.done(number, b"", "served")
    database.take(number, 1)
    with pytest.raises(StoreError, match="taken at step 1, not 2"):
        database.take(number, 2)


@pytest.mark.parametrize(
    "change", ["body = x'00'", "step = 'x'", "state = 'odd'", "asker = 5", "done_at = 'x'", "hash = x''"]
)
def test_a_change_of_the_inbox_is_found(tmp_path, database, change):
    database.ask("erase", b"body", "Graz")
    changed(tmp_path / "run.db", f"UPDATE inbox SET {change}")
    with pytest.raises(StoreError, match="request 1 is damaged"):
        database.asked()


def test_requests_from_other_threads_are_all_there_once(tmp_path, database):
    def ask(which):
        with Database.open(tmp_path / "run.db") as own:
            for i in range(10):
                own.ask("join", b"%d %d" % (which, i), "")

    threads = [threading.Thread(target=ask, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        database.append([("x", b"")])
    for thread in threads:
        thread.join()
    bodies = [asked.body for asked in database.asked()]
    assert sorted(bodies) == sorted(b"%d %d" % (which, i) for which in range(4) for i in range(10))
    assert [asked.number for asked in database.asked()] == list(range(1, 41))
    assert database.head()[0] == 10


def test_names_of_clients_are_kept_and_dropped(tmp_path, database):
    database.name_clients({i: b"name %d" % i for i in range(5)})
    database.name_clients({4: b"other"})
    database.drop_clients([0, 2, 99])
    assert database.client_names() == {1: b"name 1", 3: b"name 3", 4: b"other"}
    changed(tmp_path / "run.db", "UPDATE clients SET name = 'text' WHERE number = 3")
    with pytest.raises(StoreError, match="client 3"):
        database.client_names()


def test_ids_of_samples_go_with_their_client_and_no_others(tmp_path, database):
    mine, theirs = b"sealed ids of one", b"sealed ids of another"
    database.keep_sealed("samples", {0: (1, mine), 1: (2, theirs), 2: (1, mine)})
    database.drop_clients([1])
    assert database.sealed("samples") == {1: (2, theirs)}
    assert database.truncate()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert mine not in content
    assert theirs in content


def test_a_transaction_is_all_or_nothing(database):
    number = database.ask("erase", b"", "")

    def both():
        with database.transaction():
            database.append([("taken", b"")])
            database.take(number, 3)
            raise KeyError

    with pytest.raises(KeyError):
        both()
    assert database.head()[0] == 0
    assert database.waiting()
    with database.transaction():
        database.append([("taken", b"")])
        database.take(number, 3)
    assert database.head()[0] == 1
    assert not database.waiting()


def test_a_kill_leaves_all_of_a_transaction_or_nothing(tmp_path):
    def prepare(place):
        with Database.create(place / "run.db") as made:
            made.append([("old", b"")])
            made.ask("erase", b"", "")

    def work(place):
        made = Database.open(place / "run.db")
        with made.transaction():
            made.append([("new", b"x" * 5000)] * 50)
            made.take(1, 4)
        made.truncate()
        made.append([("last", b"")])

    found = set()

    def check(place, died):
        with Database.open(place / "run.db") as made:
            made.verify()
            found.add((made.head()[0], made.asked()[0].state))
            assert made.append([("again", b"")]) == made.head()[0]

    points = at_every_point(tmp_path, prepare, work, check)
    assert points == 3 + 2 + 3
    assert found == {(1, "waiting"), (51, "taken"), (52, "taken")}


def test_one_that_is_killed_while_it_is_made_is_not_there(tmp_path):
    def check(place, died):
        if died:
            assert not (place / "run.db").exists()
            Database.create(place / "run.db").close()
        Database.open(place / "run.db").close()

    assert at_every_point(tmp_path, lambda _: None, lambda p: Database.create(p / "run.db"), check) == 1


def bytes_of(folder):
    return b"".join((folder / name).read_bytes() for name in os.listdir(folder) if name.startswith("run.db"))


def test_what_was_deleted_is_in_no_byte_also_with_a_reader_about(tmp_path, database):
    number = database.ask("erase", b"marker-of-a-body" * 500, "")
    database.take(number, 1)
    database.done(number, b"marker-of-an-outcome", "served")
    database.name_clients({i: b"marker-of-client-%d." % i for i in range(300)})
    database.truncate()
    assert b"marker-of-a-body" in bytes_of(tmp_path)
    reader = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM clients").fetchone()
    database.drop_clients(range(0, 300, 2))
    database.blank({number: b""})
    assert database.asked()[0].body == database.asked()[0].outcome == b""
    assert not database.truncate(within=0.05)
    reader.execute("COMMIT")
    assert database.truncate(within=5)
    left = bytes_of(tmp_path)
    reader.close()
    assert b"marker-of-a-body" not in left
    assert b"marker-of-an-outcome" not in left
    for i in range(300):
        assert (b"marker-of-client-%d." % i in left) == bool(i % 2)


def test_a_reader_does_not_write(tmp_path, database):
    database.append([("x", b"")])
    with Database.open(tmp_path / "run.db", readonly=True) as reader:
        reader.verify()
        with pytest.raises(StoreError, match="readonly"):
            reader.append([("x", b"")])
        assert reader.head() == database.head()
    database.close()
    with Database.open(tmp_path / "run.db", readonly=True) as reader:
        assert reader.head()[0] == 1


def test_a_full_disk_is_named_and_what_was_written_stays(database):
    database.append([("x", b"")])
    database._run("PRAGMA max_page_count = 8")
    with pytest.raises(StoreError, match="make room on the disk"):
        database.append([("x", b"x" * 100_000)])
    database.verify()
    assert database.head()[0] == 1


def test_what_is_no_database_of_ours_is_refused(tmp_path, database):
    database.close()
    path = tmp_path / "run.db"
    content = path.read_bytes()

    def refused(said):
        for readonly in (True, False):
            with pytest.raises(StoreError, match=said):
                Database.open(path, readonly)

    for statement, said in [
        ("PRAGMA user_version = 9", "is of version 9"),
        ("PRAGMA application_id = 1", "not the database of a run"),
        ("CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END", "other tables"),
        ("DROP TABLE clients", "other tables"),
        ("CREATE VIEW v AS SELECT 1", "other tables"),
    ]:
        path.write_bytes(content)
        changed(path, statement)
        refused(said)
    for content_, said in [(b"", "not the database"), (b"no database" * 100, r"run\.db")]:
        path.write_bytes(content_)
        refused(said)
    path.unlink()
    refused("No such file")
    path.symlink_to(tmp_path / "elsewhere")
    refused("symbolic link")


def test_tables_that_are_no_text_are_told_to_readers_and_writers(tmp_path, database):
    database.close()
    path = tmp_path / "run.db"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"INTEGER PRIMARY KEY", b"INTEGER\xffPRIMARY KEY"))
    assert path.read_bytes() != whole
    for readonly in (True, False):
        with pytest.raises(StoreError, match="damaged"):
            Database.open(path, readonly)


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_files_beside_it_that_lead_elsewhere_are_refused(tmp_path, database, suffix):
    database.close()
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / f"run.db{suffix}").symlink_to(tmp_path / "theirs")
    with pytest.raises(StoreError, match=f"run.db{suffix}"):
        Database.open(tmp_path / "run.db")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_file_beside_it_that_is_gone_at_the_second_look_is_no_damage(
    tmp_path, database, suffix, monkeypatch
):
    """SQLite takes them away with the last who has the database open, at any moment."""
    database.close()
    beside, there = tmp_path / f"run.db{suffix}", os.path.lexists

    def look(path, alone=False, check=access.check_plain):
        if path == beside:
            monkeypatch.setattr(os.path, "lexists", there)
        check(path, alone)

    monkeypatch.setattr(access, "check_plain", look)
    for readonly in (True, False):
        monkeypatch.setattr(os.path, "lexists", lambda path: path == beside or there(path))
        Database.open(tmp_path / "run.db", readonly).close()


def test_an_interrupt_at_any_moment_of_a_transaction_leaves_none_open(database):
    """A signal's handler raises between two steps of Python's: here at each line of `transaction`."""
    code = Database.transaction.__wrapped__.__code__
    lines = sorted({line for _, _, line in code.co_lines() if line is not None})
    for line in lines[1:]:

        def trace(frame, event, _, line=line):
            if frame.f_code is not code:
                return trace if event == "call" else None
            if event == "line" and frame.f_lineno == line:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            with suppress(KeyboardInterrupt):
                database.append([("interrupted", b"")])
        finally:
            sys.settrace(None)
        before = len(list(database.entries()))
        database.append([("after", b"")])
        assert not database._connection.in_transaction
        with Database.open(database.path, readonly=True) as other:
            assert len(list(other.entries())) == before + 1
    assert {entry.kind for entry in database.entries()} >= {"after"}


def test_a_database_that_was_closed_says_so(tmp_path):
    database = Database.create(tmp_path / "run.db")
    database.close()
    database.close()
    for work in (database.head, lambda: database.append([("a", b"")]), database.truncate, database.changed):
        with pytest.raises(StoreError, match=r"was let go of \(close\)"):
            work()
