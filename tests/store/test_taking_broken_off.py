"""Taking up what was asked may be broken off: nothing of it is lost, in this process or the next."""

import pytest
from kept_runs import build

from unknot.core.errors import RequestError, StoreError
from unknot.core.requests import erase, join
from unknot.store import Database, erasing
from unknot.store.keeper import RunKeeper, keeper_of
from unknot.store.naming import number_of
from unknot.store.post import Post

pytestmark = pytest.mark.usefixtures("in_time")


@pytest.fixture
def kept(tmp_path):
    fed = build()
    RunKeeper.create(fed, tmp_path / "run")
    fed.run(2)
    yield fed
    fed.close()


def once(monkeypatch, owner, name, at=1, error=StoreError):
    """Have a method fail at its so-manieth call, once."""
    real, calls = getattr(owner, name), []

    def fails(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            raise error("once")
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, fails)


def again(fed, folder, anew):
    """Go on in this process, or in a federation built anew."""
    if not anew:
        return fed
    fed.close()
    made = build()
    RunKeeper.go_on(made, folder)
    return made


FAULTS = [(Database, "take", 2, StoreError), (Post, "_accept", 2, KeyboardInterrupt)]


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("owner", "name", "at", "error"), FAULTS)
def test_what_was_taken_before_it_broke_off_is_taken_again(
    kept, tmp_path, monkeypatch, owner, name, at, error, anew
):
    for client in (1, 2):
        kept.inbox.put(erase(client))
    with monkeypatch.context() as patch:
        once(patch, owner, name, at, error)
        with pytest.raises(error):
            kept.run(1)
    fed = again(kept, tmp_path / "run", anew)
    fed.resume()
    fed.run(1)
    assert [asked.state for asked in keeper_of(fed).db.asked()] == ["served", "served"]
    assert {1, 2}.isdisjoint(fed.model.lineage.clients)
    fed.close()


@pytest.mark.parametrize("anew", [False, True])
def test_a_refusal_that_cannot_be_written_stops_nobody_elses_request(kept, tmp_path, monkeypatch, anew):
    kept.inbox.put(join([1]))
    kept.inbox.put(erase(3))
    with monkeypatch.context() as patch:
        once(patch, Database, "done")
        with pytest.raises(StoreError):
            kept.run(1)
    fed = again(kept, tmp_path / "run", anew)
    fed.resume()
    fed.run(1)
    assert [asked.state for asked in keeper_of(fed).db.asked()] == ["refused", "served"]
    assert 3 not in fed.model.lineage.clients
    fed.close()


def test_a_ticket_is_closed_when_the_disk_is_clean_at_last(kept, monkeypatch):
    ticket = kept.inbox.put(erase(1))
    with monkeypatch.context() as patch:
        once(patch, erasing, "scrub")
        with pytest.raises(StoreError):
            kept.run(2)
    assert ticket.state == "waiting"
    kept.resume()
    assert ticket.state == "served"
    assert ticket.wait(0)


def test_a_number_is_nobodys_name_and_refused_where_it_is_anothers(tmp_path):
    fed = build(data=build().data.replaced(names={c: f"#{c + 1}" for c in range(8)}))
    RunKeeper.create(fed, tmp_path / "run")
    fed.run(1)
    assert [number_of(tmp_path / "run", who) for who in ("#0", "##1")] == [0, 0]
    with pytest.raises(RequestError, match="##1"):
        number_of(tmp_path / "run", "#1")
    for who in ("#00", "#01", "#08"):
        with pytest.raises(RequestError, match=f"there is no client '{who}'"):
            number_of(tmp_path / "run", who)
    fed.close()


def test_a_refusal_that_could_not_be_written_is_written_by_the_process_that_goes_on(tmp_path, monkeypatch):
    fed = build()
    keeper = RunKeeper.create(fed, tmp_path / "run")
    fed.begin(8, requests=[erase(1, round=1)])
    for _ in range(4):
        fed.step()
    fed.inbox.put(erase(1))  # who is gone: it will be refused
    with monkeypatch.context() as patch:
        once(patch, Database, "done")
        with pytest.raises(StoreError, match="once"):
            fed.step()
    keeper.interrupted = True  # a checkpoint after it, in which it neither waits nor is done
    with pytest.raises(KeyboardInterrupt):
        fed.step()
    made = again(fed, tmp_path / "run", anew=True)
    made.resume()
    assert [one.state for one in keeper_of(made).db.asked()] == ["refused"]
    made.close()
