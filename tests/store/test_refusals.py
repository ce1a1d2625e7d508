"""Why a request from outside was refused: in words that name nobody who is gone, nor anybody else."""

import logging

import pytest
from kept_runs import NAMES, build

from unknot.core.requests import erase, join
from unknot.store.database import Database
from unknot.store.inbox import leave
from unknot.store.keeper import DATABASE, RunKeeper
from unknot.store.look import look
from unknot.store.wanted import outcome


@pytest.fixture
def refused(tmp_path):
    """What is said of a request to a run from which client 1 was erased."""
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(1, requests=[erase(1, round=1)])

    def why(request):
        with Database.open(tmp_path / "run" / DATABASE) as db:  # as another process does
            ticket = fed.inbox.ticket(leave(db, request, keeper.keyring))
        fed.run(1)
        assert ticket.state == "refused"
        return ticket.why

    yield why
    keeper.close()


def test_who_was_erased_before_is_a_number_also_under_the_key_of_another(refused):
    assert refused(erase(1)) == "client 1 was already erased"
    assert refused(erase({0: [99], 1: [0]})).startswith(f"{NAMES[0]} holds no sample 99 ")
    assert refused(join([1])) == "client 1 cannot join again: its data was erased"


def test_who_is_there_has_a_name(refused):
    assert refused(erase({2: [99]})).startswith(f"{NAMES[2]} holds no sample 99 ")
    assert refused(join([3])) == f"{NAMES[3]} is a member already"


def test_nobody_is_named_who_was_not_asked_about(refused):
    assert refused(erase(77)) == "cannot erase client 77: this federation has 7 clients"
    assert refused(join([77])) == "cannot join client 77: there is data of 7 clients"


def test_a_refusal_is_told_once_by_its_number(refused, caplog):
    with caplog.at_level(logging.WARNING, "unknot"):
        refused(join([2]))
        refused(join([3]))
    assert [record.getMessage() for record in caplog.records] == [
        f"request {number} was refused: {NAMES[client]} is a member already"
        for number, client in ((1, 2), (2, 3))
    ]


def test_who_was_erased_meanwhile_is_told_so_where_no_key_is_left_to_seal_it_under(tmp_path):
    asked = []

    def ask_again(event):
        if getattr(event, "kind", "") == "erase":  # the client's key is still there
            with Database.open(tmp_path / "run" / DATABASE) as db:
                asked.append(leave(db, erase(1), keeper.keyring, "once more"))

    fed = build(observers=[ask_again])
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.run(2, requests=[erase(1, round=1)])
    keeper.close()
    (shown,) = look(tmp_path / "run").requests
    with Database.open(tmp_path / "run" / DATABASE, readonly=True) as db:
        waited_for = outcome(tmp_path / "run", db.request(asked[0]))
    for found in (shown, waited_for):
        assert (found.number, found.state, found.refused) == (asked[0], "refused", "already erased")
