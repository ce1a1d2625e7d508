"""What a run's database has of a client once it is erased, or once some of its samples are."""

import shutil
import sqlite3
import threading
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from kept_runs import NAMES, build

from unknot.core.errors import StoreError
from unknot.core.requests import Erase, Moment, Target, erase, join
from unknot.store import Database, Keyring, inbox
from unknot.store import keeper as keeping
from unknot.store.entries import At, read_plain
from unknot.store.inbox import leave, outcome_text, request_for, told_of
from unknot.store.keeper import RunKeeper
from unknot.store.look import look

LEAVER = 1


@pytest.fixture
def kept(tmp_path):
    """A run that has gone on for a round, kept; what asks it and serves that."""
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(1)

    def ask(request, reason=""):
        number = left(keeper, request, reason)
        fed.run(1)
        return number

    ask.fed = fed
    yield keeper, ask
    keeper.close()


def left(keeper, request, reason="", keys=True):
    """A request, asked as another process would; without keys, ids of samples lie open until it is taken."""
    with Database.open(keeper.folder / "run.db") as db:
        return leave(db, request, keeper.keyring if keys else Keyring("not there"), reason)


def rows(keeper):
    return {asked.number: asked for asked in keeper.db.asked()}


def test_of_an_erased_client_no_request_that_is_over_and_no_sealed_name_is_left(kept):
    keeper, ask = kept
    served = ask(erase({LEAVER: [0]}), "by post")
    refused = ask(join([LEAVER]))
    shared = ask(erase({LEAVER: [1], 2: [0]}))
    another = ask(erase({2: [1]}))
    assert [rows(keeper)[number].state for number in (served, refused, shared, another)] == [
        "served",
        "refused",
        "served",
        "served",
    ]
    before, events = rows(keeper)[another], list(ask.fed.history.served)
    last = ask(erase(LEAVER))
    found = rows(keeper)
    for number in (served, refused, shared):
        assert found[number].body == b""
    assert found[refused].outcome == b""
    for number, order in ((served, 0), (shared, 1)):
        event = events[order]
        assert read_plain(found[number].outcome) == At(event.round, event.time, order)
    assert found[another] == before
    assert found[last].state == "served"
    assert told_of(found[last])[0] == [(LEAVER, None)]
    assert set(keeper.db.client_names()) == set(NAMES) - {LEAVER}


def test_what_is_still_to_be_served_stays_when_a_client_goes(kept, monkeypatch):
    keeper, ask = kept
    scrub, found = keeping.erasing.scrub, []

    def asked_meanwhile(*told):
        if not found:
            found.append(left(keeper, erase([LEAVER, 2])))
        return scrub(*told)

    monkeypatch.setattr(keeping.erasing, "scrub", asked_meanwhile)
    ask(erase(LEAVER))
    assert told_of(rows(keeper)[found[0]])[0] == [(LEAVER, None), (2, None)]


@pytest.mark.parametrize("kind", ["erase", "join"])
def test_a_reason_of_several_clients_is_under_the_key_of_the_one_with_the_lowest_number(kept, kind):
    keeper, _ = kept
    number = left(keeper, request_for(kind, [2, 1, 3], None), "by post")
    sealed = told_of(rows(keeper)[number])[1]
    for client in (1, 2, 3):
        if client == 1:
            assert keeper.keyring.open(client, sealed, b"reason") == b"by post"
        else:
            with pytest.raises(StoreError):
                keeper.keyring.open(client, sealed, b"reason")


def reason_of(keeper, number):
    return next(one.reason for one in look(keeper.folder).requests if one.number == number)


@pytest.mark.parametrize("sealing", [True, False], ids=["whose key seals it", "another of them"])
def test_the_reason_of_a_request_that_is_over_goes_with_the_first_of_its_clients_to_be_erased(kept, sealing):
    keeper, ask = kept
    over = ask(request_for("join", [LEAVER, 2 if sealing else 0], None), "by post")
    assert rows(keeper)[over].state == "refused"
    assert reason_of(keeper, over) == "by post"
    ask(erase(LEAVER))
    assert rows(keeper)[over].body == b""
    assert reason_of(keeper, over) == ""


@pytest.mark.parametrize("leaver", [0, 1], ids=["whose key seals it", "another of them"])
def test_the_reason_of_a_request_that_waits_goes_then_too(kept, monkeypatch, leaver):
    keeper, ask = kept
    scrub, found = keeping.erasing.scrub, []

    def asked_meanwhile(*told):
        if not found:
            found.append(left(keeper, erase([0, 1]), "by post"))
            assert told_of(rows(keeper)[found[0]])[1]
        return scrub(*told)

    monkeypatch.setattr(keeping.erasing, "scrub", asked_meanwhile)
    ask(erase(leaver))
    assert told_of(rows(keeper)[found[0]]) == ([(0, None), (1, None)], b"")
    ask.fed.run(1)
    assert rows(keeper)[found[0]].state == "served"
    assert ask.fed.data.erased == {0, 1}


def test_the_reason_stays_as_long_as_all_its_clients_do(kept):
    keeper, ask = kept
    over = ask(request_for("join", [2, 3], None), "by post")
    ask(erase(LEAVER))
    assert reason_of(keeper, over) == "by post"


IDS = [0, 2, 3, 5, 7]


def with_ids(folder):
    """The files of a folder that have the ids."""
    wanted = b"".join(map(msgspec.msgpack.encode, IDS))
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and wanted in path.read_bytes()]


@pytest.mark.parametrize(
    "others", [{}, {2: None}, {2: [0]}], ids=["alone", "with another", "and its samples"]
)
@pytest.mark.parametrize("when", ["before", "meanwhile", "after", "over"])
def test_ids_of_an_erased_clients_samples_are_left_nowhere_whenever_they_were_asked(
    kept, monkeypatch, others, when
):
    keeper, ask = kept
    fed = ask.fed
    samples = Erase(tuple(Target(c, s) for c, s in {LEAVER: tuple(IDS), **others}.items()), Moment())
    found, scrub = [], keeping.erasing.scrub
    monkeypatch.setattr(inbox, "_check_not_asked", lambda *_: None)  # both ask at one moment

    def asked_meanwhile(*told):
        if not found:
            found.append(left(keeper, samples, keys=False))
            assert "run.db" in with_ids(keeper.folder)
        return scrub(*told)

    if when == "meanwhile":
        monkeypatch.setattr(keeping.erasing, "scrub", asked_meanwhile)
    whole = left(keeper, erase(LEAVER))
    if when == "before":
        found.append(left(keeper, samples, keys=False))
        assert "run.db" in with_ids(keeper.folder)
    while rows(keeper)[whole].state != "served":
        if fed.over:
            fed.begin(1)
        fed.step()
    if when in ("before", "meanwhile"):
        assert not with_ids(keeper.folder)  # at the moment at which the erasure counts as served
    if when == "after":
        found.append(left(keeper, samples, keys=False))
    if when == "over":
        fed.resume()
        found.append(left(keeper, samples, keys=False))
    fed.resume()
    fed.run(1)
    assert rows(keeper)[found[0]].state == ("served" if others else "refused")
    assert not with_ids(keeper.folder)


def test_a_request_is_sealed_under_the_key_that_its_client_has_when_it_is_written(kept):
    keeper, ask = kept
    read = Keyring(keeper.folder / "keys")  # by who is about to ask
    ask(erase({LEAVER: [0]}))
    with Database.open(keeper.folder / "run.db") as db:
        number = leave(db, erase({LEAVER: IDS[1:]}), read, "by post")
    ask.fed.run(1)
    assert rows(keeper)[number].state == "served"
    assert ask.fed.data.reduced == {LEAVER: set(IDS)}


def test_ids_that_were_asked_without_keys_are_out_of_the_file_once_the_request_is_taken_up(kept):
    keeper, ask = kept
    left(keeper, erase({LEAVER: [*IDS, 99]}), keys=False)
    assert "run.db" in with_ids(keeper.folder)
    ask.fed.run(1)
    assert {one.state for one in rows(keeper).values()} == {"refused"}
    assert not with_ids(keeper.folder)


def test_nothing_is_asked_of_a_run_that_was_let_go_of(kept):
    keeper, ask = kept
    keeper.close()
    with pytest.raises(StoreError, match="let go of"):
        ask.fed.inbox.put(erase(LEAVER))
    with Database.open(keeper.folder / "run.db", readonly=True) as db:
        assert not db.asked()


def test_ids_of_who_is_erased_already_are_not_written_at_all(kept):
    keeper, ask = kept
    ask(erase(LEAVER))
    ticket = ask.fed.inbox.put(Erase((Target(LEAVER, tuple(IDS)), Target(2, (0,))), Moment()))
    assert not with_ids(keeper.folder)
    ask.fed.run(1)
    assert ticket.state == "served"
    assert ask.fed.data.reduced == {2: {0}}


def test_reasons_and_refusals_of_whose_samples_are_erased_are_read_with_the_new_key_alone(kept, tmp_path):
    keeper, ask = kept
    refused = ask(join([LEAVER]), "let me in")
    before = told_of(rows(keeper)[refused])[1]
    shutil.copy(tmp_path / "run" / "keys", tmp_path / "old")
    last = ask(erase({LEAVER: [0]}), "by post")
    old, new = Keyring(tmp_path / "old"), Keyring(tmp_path / "run" / "keys")
    found = rows(keeper)
    assert [found[number].state for number in (refused, last)] == ["refused", "served"]
    for number, reason in ((refused, b"let me in"), (last, b"by post")):
        sealed = told_of(found[number])[1]
        assert new.open(LEAVER, sealed, b"reason") == reason
        with pytest.raises(StoreError, match="sealed under another key"):
            old.open(LEAVER, sealed, b"reason")
    assert old.open(LEAVER, before, b"reason") == b"let me in"
    with pytest.raises(StoreError, match="sealed under another key"):
        new.open(LEAVER, before, b"reason")
    assert outcome_text(found[refused], new) == f"{NAMES[LEAVER]} is a member already"
    assert outcome_text(found[refused], old) == ""


def test_the_write_ahead_log_is_empty_before_an_erasure_counts_as_done(kept, tmp_path, monkeypatch):
    keeper, ask = kept
    sizes, append = [], keeper.db.append

    def looked_at(entries):
        if "erased" in [kind for kind, _ in entries]:
            sizes.append((tmp_path / "run" / "run.db-wal").stat().st_size)
        return append(entries)

    monkeypatch.setattr(keeper.db, "append", looked_at)
    ask(erase(LEAVER))
    ask(erase({2: [0]}))
    assert sizes == [0, 0]


@contextmanager
def reading(folder):
    """Somebody who holds a view of the database for as long as this."""
    reader = sqlite3.connect(folder / "run.db", check_same_thread=False)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchall()
        yield reader
    finally:
        reader.close()


def ids_left(folder):
    return [name for name in with_ids(folder) if name.startswith("run.db")]


@pytest.mark.parametrize("then", ["checkpoint", "ended", "close", "go_on"])
def test_what_a_reader_kept_in_the_write_ahead_log_goes_once_it_has_ended(kept, monkeypatch, then):
    keeper, ask = kept
    fed, folder = ask.fed, keeper.folder
    monkeypatch.setattr(keeping.erasing, "PATIENCE", 0.0)
    left(keeper, erase({LEAVER: IDS}), keys=False)
    with reading(folder):
        ask(erase(LEAVER))
        assert ids_left(folder)
        assert not all(one["truncated"] for one in look(folder).erased)
        if then == "go_on":
            keeper.close()
            assert ids_left(folder)
    if then == "checkpoint":
        keeper.checkpoint(fed)
    if then == "ended":
        keeper.ended(fed, fed.history)
    if then == "close":
        keeper.close()
    if then == "go_on":
        fed = build()
        keeper = RunKeeper.go_on(fed, folder)
        assert fed.data.erased == {LEAVER}
    assert not ids_left(folder)
    assert all(one["truncated"] for one in look(folder).erased)
    keeper.close()


def test_a_reader_is_waited_for_before_an_erasure_counts_as_done(kept, monkeypatch):
    keeper, ask = kept
    ask(erase({LEAVER: IDS}))
    monkeypatch.setattr(keeping.erasing, "PATIENCE", 30.0)
    scrub = keeping.erasing.scrub

    def with_a_reader(*told):
        with reading(keeper.folder) as reader:
            waiting = threading.Timer(0.3, reader.rollback)
            waiting.start()
            found = scrub(*told)
            waiting.join()
        return found

    monkeypatch.setattr(keeping.erasing, "scrub", with_a_reader)
    ask(erase(LEAVER))
    assert [read_plain(entry.body)["truncated"] for entry in keeper.db.entries(kind="erased")] == [True, True]


def test_readers_are_waited_for_as_long_as_the_page_says():
    assert keeping.erasing.PATIENCE == 2.0
    page = Path(__file__).parents[2] / "docs" / "runs.md"
    assert "for more than two seconds" in page.read_text()
