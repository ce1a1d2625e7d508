"""Requests and words from outside: what must not be lost, and what is for a process that is gone."""

import re
from dataclasses import replace

import pytest

from support import ToyEngine, small_data, toy_federation, toy_weights
from unknot.core.errors import RequestError, RunStopped, StoreError
from unknot.core.form import pack
from unknot.core.lineage import Lineage, Unit
from unknot.core.requests import erase, join
from unknot.federation import Federation
from unknot.store import inbox
from unknot.store import keeper as keeping
from unknot.store.database import Database
from unknot.store.entries import read_plain
from unknot.store.inbox import leave, told_of
from unknot.store.keeper import RunKeeper
from unknot.store.keyring import Keyring
from unknot.store.noted import DATABASE, KEYS
from unknot.store.rows import Asked
from unknot.unlearn import RFS

pytestmark = pytest.mark.usefixtures("in_time")


class Gone(BaseException):
    """The process is gone."""


def build():
    return toy_federation(RFS(), small_data((5, 8, 3, 6)), ToyEngine())


def ask(folder, *kinds):
    """Leave an erasure of client 1 for "erase", and the word itself for others."""
    with Database.open(folder / DATABASE) as db:
        for kind in kinds:
            if kind == "erase":
                leave(db, erase(1), Keyring(folder / KEYS))
            else:
                db.ask(kind, b"", "tester")


def test_a_request_that_came_just_before_a_pause_outlives_the_process_that_paused(tmp_path, monkeypatch):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    ask(tmp_path / "run", "erase", "pause")

    def gone(seconds):
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(keeping.time, "sleep", gone)
        with pytest.raises(Gone):
            fed.run(3)
    keeper.close()
    again = build()
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    history = again.resume()
    assert [served.request for served in history.served] == ["erase client 1"]
    assert [asked.state for asked in keeper.db.asked()] == ["served", "served"]


@pytest.mark.parametrize("word", ["pause", "stop"])
def test_a_word_to_a_process_that_is_gone_is_not_for_the_next_one(tmp_path, word):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(2)
    ask(tmp_path / "run", word)
    keeper.close()
    again = build()
    keeper = RunKeeper.go_on(again, tmp_path / "run")
    again.run(2)
    assert [asked.state for asked in keeper.db.asked()] == ["refused"]


def test_a_stop_while_it_runs_is_one(tmp_path):
    fed = build()
    RunKeeper.create(fed, tmp_path / "run")
    ask(tmp_path / "run", "stop")
    with pytest.raises(RunStopped, match=r"call resume\(\)"):
        fed.run(2)


def test_who_asks_from_outside_makes_no_keys(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    before = (tmp_path / "run" / KEYS).read_bytes()
    with Database.open(tmp_path / "run" / DATABASE) as db:
        number = leave(db, erase(1), Keyring(tmp_path / "run" / KEYS), "moved away")
        with pytest.raises(StoreError, match="no key of client 9"):
            leave(db, erase(9), Keyring(tmp_path / "run" / KEYS), "moved away")
    assert number == 1
    assert (tmp_path / "run" / KEYS).read_bytes() == before
    fed.run(2)
    assert [asked.state for asked in keeper.db.asked()] == ["served"]


def test_a_half_written_result_goes_before_the_run_goes_on(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    keeper.close()
    half = tmp_path / "run" / ".part-record.json-0123456789abcdef.json"
    half.write_text("Graz")
    RunKeeper.go_on(build(), tmp_path / "run").close()
    assert not half.exists()


def test_a_run_that_is_interrupted_is_kept_at_that_step(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=1e9)
    fed.begin(5)
    fed.step()
    fed.step()
    keeper.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        fed.resume()
    keeper.close()
    again = build()
    RunKeeper.go_on(again, tmp_path / "run")
    assert again.steps == fed.steps == 2


def test_the_end_of_a_run_says_what_is_served(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    history = fed.run(2)
    (told,) = [read_plain(entry.body) for entry in keeper.db.entries(kind="ended")]
    assert told == {"model": history.model.digest(), "lineage": history.model.lineage.describe()}
    fed.resume()
    assert len(list(keeper.db.entries(kind="ended"))) == 1


def test_an_erasure_says_how_much_was_removed(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run", every=0.0)
    fed.run(3, requests=[erase(1, round=2)])
    (told,) = [read_plain(entry.body) for entry in keeper.db.entries(kind="erased")]
    assert told["checkpoints"] >= 1
    assert told["bytes"] > 0
    assert told["tensors"] >= 1


def test_a_request_whose_reason_is_a_number_is_refused_and_not_made_room_for():
    with pytest.raises(StoreError, match="cannot be read"):
        told_of(Asked(1, "erase", pack([[(1, None)], 2**62]), "x", "then"))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (erase(77), "cannot erase client 77: this federation has 4 clients"),
        (erase([1, 77]), "cannot erase client 77: this federation has 4 clients"),
        (join([77]), "cannot join client 77: there is data of 4 clients"),
        (erase("Gratz"), "there is no client 'Gratz'. Did you mean 'Graz'"),
        (erase(["Graz", 3]), "Graz is named twice"),
        (join(["Graz", "Graz"]), "Graz is named twice"),
    ],
)
def test_who_was_never_there_or_is_named_twice_is_refused_at_once_and_nothing_is_left(
    tmp_path, request_, why
):
    fed = toy_federation(RFS(), small_data((5, 8, 3, 6)).replaced(names={3: "Graz"}), ToyEngine())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    with pytest.raises(RequestError, match=f"^{re.escape(why)}"):
        fed.inbox.put(request_)
    assert keeper.db.asked() == []
    keeper.close()


def asked_twice(folder, first, second):
    """A run that nobody holds, of which the second is asked while the first waits."""
    fed = build()
    RunKeeper.create(fed, folder)
    fed.run(1)
    fed.close()
    with Database.open(folder / DATABASE) as db:
        for request in first:
            leave(db, request, Keyring(folder / KEYS))
        return leave(db, second, Keyring(folder / KEYS))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([erase(1)], erase(1)),
        ([erase([1, 2])], erase(2)),
        ([erase(1), erase(2)], erase([1, 2])),
        ([erase(1)], erase({1: [0]})),
        ([erase({1: [0, 1]})], erase({1: [1]})),
        ([erase({1: [0]}), erase({1: [1]})], erase({1: [0, 1]})),
        ([join([1])], join([1])),
        ([join([1, 2]), join([3])], join([2, 3])),
    ],
)
def test_what_waits_to_be_served_is_not_asked_for_again(tmp_path, first, second):
    numbers = ", ".join(str(number + 1) for number in range(len(first)))
    many = "requests" if len(first) > 1 else "request"
    why = f"{second}: that is asked for already, and still to be served ({many} {numbers})"
    with pytest.raises(RequestError, match=re.escape(why)):
        asked_twice(tmp_path / "run", first, second)
    with Database.open(tmp_path / "run" / DATABASE) as db:
        assert len(db.asked()) == len(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([erase(1)], erase([1, 2])),
        ([erase({1: [0]})], erase({1: [0, 1]})),
        ([erase({1: [0]})], erase(1)),
        ([join([1])], erase(1)),
        ([erase(1)], join([1])),
        ([join([1])], join([2])),
    ],
)
def test_what_asks_for_more_than_what_waits_is_taken(tmp_path, first, second):
    assert asked_twice(tmp_path / "run", first, second) == 2


def test_of_a_join_that_would_be_refused_it_is_said_who_waits_already(tmp_path):
    with pytest.raises(RequestError, match=r"^join client 2: that is asked for already"):
        asked_twice(tmp_path / "run", [join([2])], join([1, 2]))


def test_what_was_served_or_refused_stands_in_nobodys_way(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    fed.inbox.put(erase({1: [0]}))
    with Database.open(tmp_path / "run" / DATABASE) as db:
        leave(db, erase({2: [99]}), keeper.keyring)
        fed.run(1)
        assert [asked.state for asked in db.asked()] == ["served", "refused"]
        assert leave(db, erase({1: [0]}), keeper.keyring) == 3  # told when it is served: it was erased
        assert leave(db, erase({2: [99]}), keeper.keyring) == 4
    keeper.close()


def test_what_waits_under_keys_that_are_not_there_is_told_when_it_is_served(tmp_path):
    asked_twice(tmp_path / "run", [erase({1: [0]})], erase({2: [0]}))
    with Database.open(tmp_path / "run" / DATABASE) as db:
        assert leave(db, erase({1: [0]}), Keyring(tmp_path / "none")) == 3


def test_two_who_ask_for_the_same_at_one_moment_are_told_apart_when_it_is_served(tmp_path, monkeypatch):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(inbox, "_check_not_asked", lambda *_: None)  # neither sees what the other asks
        tickets = [fed.inbox.put(erase(1)) for _ in range(2)]
    fed.run(2)
    assert [ticket.state for ticket in tickets] == ["served", "refused"]
    keeper.close()


def test_samples_that_a_client_never_had_are_refused_at_once_and_those_erased_before_are_not(tmp_path):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    with pytest.raises(RequestError, match="client 1 holds no sample 99 "):
        fed.inbox.put(erase({1: [0, 99]}))
    assert keeper.db.asked() == []
    fed.inbox.put(erase({1: [0]}))
    fed.run(1)
    ticket = fed.inbox.put(erase({1: [0, 1]}))
    fed.run(1)
    assert ticket.state == "served"
    keeper.close()


def test_who_is_gone_or_only_shaped_the_start_may_still_be_asked_about(tmp_path):
    data = small_data((5, 8, 3, 6))
    data.erase(1)
    start = replace(toy_weights(), lineage=Lineage([Unit(9)]))
    fed = Federation(ToyEngine(), start, data, RFS())
    keeper = RunKeeper.create(fed, tmp_path / "run")
    gone, before = fed.inbox.put(erase(1)), fed.inbox.put(erase(9))
    fed.run(1)
    assert (gone.state, gone.why) == ("refused", "client 1 was already erased")
    assert "the weights that this federation began with" in before.why
    keeper.close()
